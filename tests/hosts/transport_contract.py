"""What every transport promises. Subclass it with a `transport` fixture; a fleet can be one too."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from hosts.transport.base import CommandTimeout, ConnectRefused, InvalidCommand, Transport

FIVE_MB = 5_000_000


class Cancelled(Exception):
    """What a tick raises to end a wait."""


@contextlib.contextmanager
def echo_server() -> Iterator[int]:
    """Answers each connection with what it gets, in upper case."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    link, _ = listener.accept()
                    with link:
                        while data := link.recv(65536):
                            link.sendall(data.upper())

        threading.Thread(target=serve, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


class TransportContract:
    """Needs the fixtures `transport` and `echo_port`, a port that answers in upper case on the host."""

    def test_exit_codes_come_through(self, transport: Transport) -> None:
        for code in (0, 3, 255):
            assert transport.run(["sh", "-c", f"exit {code}"], timeout=10).exit_status == code

    def test_stdout_and_stderr_are_kept_apart(self, transport: Transport) -> None:
        result = transport.run(["sh", "-c", "echo out; echo err >&2; exit 3"], timeout=10)
        assert (result.stdout, result.stderr, result.exit_status) == (b"out\n", b"err\n", 3)

    def test_words_are_not_taken_apart(self, transport: Transport) -> None:
        words = ["one two", "$HOME", "'", '"', "*", "; exit 9", ""]
        result = transport.run(["printf", "[%s]", *words], timeout=10)
        assert result.stdout == "".join(f"[{word}]" for word in words).encode()

    def test_a_missing_program_is_127(self, transport: Transport) -> None:
        assert transport.run(["no-such-program-here"], timeout=10).exit_status == 127

    def test_five_megabytes_go_both_ways(self, transport: Transport) -> None:
        data = bytes(range(256)) * (FIVE_MB // 256)
        assert transport.run(["cat"], timeout=60, stdin=data).stdout == data

    def test_five_megabytes_on_stderr_do_not_block(self, transport: Transport) -> None:
        script = f"head -c {FIVE_MB} /dev/zero >&2; echo done"
        result = transport.run(["sh", "-c", script], timeout=60)
        assert (len(result.stderr), result.stdout) == (FIVE_MB, b"done\n")

    def test_unread_stdin_is_no_failure(self, transport: Transport) -> None:
        assert transport.run(["true"], timeout=10, stdin=b"x" * FIVE_MB).exit_status == 0

    def test_stdin_ends(self, transport: Transport) -> None:
        assert transport.run(["cat"], timeout=10).stdout == b""
        assert transport.run(["wc", "-c"], timeout=10, stdin=b"12345").stdout.strip() == b"5"

    def test_a_killed_command_has_no_plain_status(self, transport: Transport) -> None:
        status = transport.run(["sh", "-c", "kill -9 $$"], timeout=10).exit_status
        assert status is None or status == 137

    def test_a_silent_command_meets_the_deadline(self, transport: Transport) -> None:
        begun = time.monotonic()
        with pytest.raises(CommandTimeout) as caught:
            transport.run(["sleep", "30"], timeout=1.0)
        assert time.monotonic() - begun < 3
        assert caught.value.hint

    def test_a_chatty_command_meets_the_deadline(self, transport: Transport) -> None:
        begun = time.monotonic()
        with pytest.raises(CommandTimeout):
            transport.run(["sh", "-c", "while :; do echo x; sleep 0.1; done"], timeout=1.0)
        assert time.monotonic() - begun < 3

    def test_an_exception_from_tick_ends_the_wait(self, transport: Transport) -> None:
        def tick() -> None:
            raise Cancelled

        begun = time.monotonic()
        with pytest.raises(Cancelled):
            transport.run(["sleep", "30"], timeout=20, tick=tick)
        assert time.monotonic() - begun < 3

    def test_a_child_that_keeps_the_output_open_does_not_hold_us(self, transport: Transport) -> None:
        begun = time.monotonic()
        result = transport.run(["sh", "-c", "sleep 8 & echo started; exit 4"], timeout=20)
        assert (result.stdout, result.exit_status) == (b"started\n", 4)
        assert time.monotonic() - begun < 5

    def test_nul_is_refused_and_the_link_lives(self, transport: Transport) -> None:
        with pytest.raises(InvalidCommand):
            transport.run(["echo", "a\0b"], timeout=5)
        assert transport.run(["true"], timeout=10).exit_status == 0

    def test_a_stream_tells_output_silence_and_end(self, transport: Transport) -> None:
        script = "echo one; echo err >&2; read line; echo got $line; exit 5"
        with transport.stream(["sh", "-c", script], keep_stdin_open=True) as stream:
            seen = b""
            while seen.count(b"\n") < 2:
                seen += stream.read(timeout=10) or b""
            assert sorted(seen.split()) == [b"err", b"one"]
            assert stream.read(timeout=0.2) is None
            stream.write(b"hello\n")
            assert stream.read(timeout=10) == b"got hello\n"
            assert stream.read(timeout=10) == b""
            assert stream.exit_status == 5

    def test_a_stream_takes_its_stdin_at_the_start(self, transport: Transport) -> None:
        with transport.stream(["cat"], stdin=b"given") as stream:
            seen = b""
            while chunk := stream.read(timeout=10):
                seen += chunk
        assert seen == b"given"

    def test_a_port_of_the_host_can_be_reached(self, transport: Transport, echo_port: int) -> None:
        tunnel = transport.open_tcp(echo_port, timeout=10)
        tunnel.settimeout(10)
        tunnel.sendall(b"hello")
        seen = b""
        while len(seen) < 5:
            seen += tunnel.recv(100)
        assert seen == b"HELLO"
        tunnel.settimeout(0.2)
        with pytest.raises(TimeoutError):
            tunnel.recv(1)
        tunnel.close()

    def test_a_port_without_a_listener_is_refused(self, transport: Transport) -> None:
        with pytest.raises(ConnectRefused):
            transport.open_tcp(1, timeout=10)

    def test_it_says_that_it_is_alive(self, transport: Transport) -> None:
        assert transport.is_alive(timeout=5)

    def test_commands_are_counted(self, transport: Transport) -> None:
        before = transport.counters.execs
        transport.run(["true"], timeout=10)
        assert transport.counters.execs == before + 1

    def test_many_threads_share_one_link(self, transport: Transport) -> None:
        answers: list[bytes] = []

        def ask(number: int) -> None:
            answers.append(transport.run(["echo", str(number)], timeout=30).stdout)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(answers) == sorted(f"{number}\n".encode() for number in range(12))
