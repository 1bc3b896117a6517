"""Runs the web process: `python -m controlpanel.serve --fd N`, or `--host ADDRESS --port N` without the supervisor.

The supervisor's socket outlives a crash of the web process, so a browser that comes meanwhile waits instead of being
refused.
"""

import argparse
import os
import socket
import warnings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlpanel.settings")

import uvicorn
from django.conf import settings

GRACE_SECONDS = 5
LARGEST_FRAME = 64 * 1024


def configuration() -> uvicorn.Config:
    """Return how uvicorn runs the application."""
    return uvicorn.Config(
        "controlpanel.asgi:application",
        loop="uvloop",
        ws="websockets-sansio",
        ws_max_size=LARGEST_FRAME,
        lifespan="off",
        access_log=False,
        server_header=False,
        log_config=None,
        timeout_graceful_shutdown=GRACE_SECONDS,
        # The audit names addresses: a forwarded one counts only from a proxy that we were told about.
        proxy_headers=bool(settings.TRUSTED_PROXIES),
        forwarded_allow_ips=settings.TRUSTED_PROXIES or None,
    )


class ReadyServer(uvicorn.Server):
    """Says once, on a pipe, that it serves."""

    def __init__(self, config: uvicorn.Config, *, ready_fd: int | None) -> None:
        super().__init__(config)
        self._ready_fd = ready_fd

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, then tell the supervisor."""
        await super().startup(sockets=sockets)
        if self._ready_fd is not None:
            os.write(self._ready_fd, b"1")


def main() -> None:
    # Whitenoise hands its files over as ordinary iterators, which Django reads in a thread and warns about.
    warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous iterators")
    parser = argparse.ArgumentParser(description="Runs the web process of the panel.")
    parser.add_argument("--fd", type=int, help="an inherited listening socket")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--ready-fd", type=int, help="a pipe to write to once it serves")
    options = parser.parse_args()
    if options.fd is not None:
        listener = socket.socket(fileno=options.fd)
    else:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        listener = socket.create_server((options.host, options.port), family=family)
    ReadyServer(configuration(), ready_fd=options.ready_fd).run(sockets=[listener])


if __name__ == "__main__":
    main()
