"""A router look-alike: a list of backends behind an HTTP API, as routers of inference servers have one.

    POST /add_worker?url=U      POST /remove_worker?url=U      GET /list_workers

``asked`` is what it was asked, in order, with the time; ``refuses`` the status that it answers with instead of acting.
``watch`` is called with each request before it acts. ``key``: what it wants as a bearer token; empty: nothing.
"""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """One request that a router got. ``at``: in seconds of the machine's wall clock."""

    at: float
    what: str
    url: str


@dataclass
class Router:
    """Use it in a ``with``; it listens on a free port of ``address``."""

    address: str = "127.0.0.1"
    key: str = ""
    backends: set[str] = field(default_factory=set)
    asked: list[Asked] = field(default_factory=list)
    refuses: dict[str, int] = field(default_factory=dict)
    watch: Callable[[str], object] = lambda what: None

    def __enter__(self) -> "Router":
        self._server = ThreadingHTTPServer((self.address, 0), self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.01,), name="router", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def base(self) -> str:
        """Its address."""
        return f"http://{self.address}:{self._server.server_address[1]}"

    def _handler(router) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._say(200, {"urls": sorted(router.backends)})

            def do_POST(self) -> None:
                parts = urlsplit(self.path)
                what, url = parts.path.strip("/"), parse_qs(parts.query).get("url", [""])[0]
                router.watch(what)
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                router.asked.append(Asked(time.time(), what, url))
                self._say(*router.answer(what, url, self.headers.get("Authorization", "")))

            def _say(self, status: int, body: dict[str, object]) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def answer(self, what: str, url: str, authorization: str) -> tuple[int, dict[str, object]]:
        """Status and body; the list changes only with 200."""
        if self.key and authorization != f"Bearer {self.key}":
            return 401, {"error": f"wrong key: {authorization}"}
        if what in self.refuses:
            return self.refuses[what], {"error": "not now"}
        if what == "add_worker":
            self.backends.add(url)
        elif what == "remove_worker" and url in self.backends:
            self.backends.remove(url)
        else:
            return 404, {"error": f"{what}: no such worker"}
        return 200, {"ok": url}
