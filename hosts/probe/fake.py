"""What a host would answer to the probe, for the scripted transport.

fake.on(is_probe, reply=answer({"gpus": GPUS_TEXT, "apps": (NO_DRIVER, 9)}))
"""

from collections.abc import Callable, Mapping

from hosts.transport.fake import Call, Reply

Content = str | bytes | tuple[str | bytes, int]
"""What a section holds, and the status of the command behind it when that is not 0."""


def is_probe(call: Call) -> bool:
    """Whether this call runs the probe script."""
    return call.stdin.startswith(b"TOKEN=") and "sh" in call.argv


def frame_bytes(token: str, sections: Mapping[str, Content], *, complete: bool = True) -> bytes:
    """One frame as the script prints it."""
    parts = [f"\n@relaunch {token} begin\n".encode()]
    for name, content in sections.items():
        text, status = content if isinstance(content, tuple) else (content, 0)
        body = text.encode() if isinstance(text, str) else text
        parts += [f"\n@relaunch {token} section {name}\n".encode(), body]
        parts.append(f"\n@relaunch {token} status {status}\n".encode())
    if complete:
        parts.append(f"\n@relaunch {token} end\n".encode())
    return b"".join(parts)


def asked_for(call: Call, sections: Mapping[str, Content]) -> dict[str, Content]:
    """Those of ``sections`` that this call of the probe asks for."""
    sources = _sources(set(call.argv[call.argv.index("--") + 1].split(",")))
    return {name: content for name, content in sections.items() if name.split(".")[0] in sources}


def answer(
    sections: Mapping[str, Content] | Callable[[Call], Mapping[str, Content]], *, complete: bool = True
) -> Callable[[Call], Reply]:
    """A reply for `FakeTransport.on`; only the sections that were asked for are given."""

    def reply(call: Call) -> Reply:
        known = sections(call) if callable(sections) else sections
        given = asked_for(call, known)
        token = call.stdin.partition(b"\n")[0].removeprefix(b"TOKEN=").decode()
        return Reply(stdout=frame_bytes(token, given, complete=complete))

    return reply


def _sources(asked: set[str]) -> set[str]:
    more = {"pids": ("commands",), "disk": ("paths",), "fds": ("minors",), "usable": ("kernel", "nodes")}
    return asked | {name for cause, names in more.items() if cause in asked for name in names}
