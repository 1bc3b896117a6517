"""The script with which the fake keeps the contract: what a real machine would do with the same commands."""

import socket

from hosts.transport.fake import Answer, Call, FakeTransport, Reply

ONE_LINERS = {
    "echo out; echo err >&2; exit 3": Reply(stdout=b"out\n", stderr=b"err\n", exit_status=3),
    "head -c 5000000 /dev/zero >&2; echo done": Reply(stdout=b"done\n", stderr=bytes(5_000_000)),
    "kill -9 $$": Reply(exit_status=None),
    "while :; do echo x; sleep 0.1; done": Reply(stdout=b"x\n", hangs=True),
    "sleep 8 & echo started; exit 4": Reply(stdout=b"started\n", exit_status=4),
    "echo one; echo err >&2; read line; echo got $line; exit 5": Reply(
        chunks=(b"one\nerr\n", None), exit_status=5, echo=lambda data: b"got " + data
    ),
}


def _shell(call: Call) -> Answer:
    script = call.argv[2]
    if script.startswith("exit "):
        return Reply(exit_status=int(script.split()[1]))
    return ONE_LINERS[script]


def _printf(call: Call) -> Answer:
    return Reply(stdout="".join(f"[{word}]" for word in call.argv[2:]).encode())


def contract_fake(echo_port: int) -> FakeTransport:
    """A fake that answers every command of the contract."""
    fake = FakeTransport()
    fake.on("sh", "-c", reply=_shell)
    fake.on("printf", reply=_printf)
    fake.on("no-such-program-here", reply=Reply(exit_status=127))
    fake.on("cat", reply=lambda call: Reply(stdout=call.stdin))
    fake.on("wc", reply=lambda call: Reply(stdout=str(len(call.stdin)).encode()))
    fake.on("echo", reply=lambda call: Reply(stdout=" ".join(call.argv[1:]).encode() + b"\n"))
    fake.on("true", reply=Reply())
    fake.on("sleep", reply=Reply(hangs=True))
    fake.ports[echo_port] = lambda host, port: socket.create_connection((host, port), 5)
    return fake
