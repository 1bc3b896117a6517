"""SSH over paramiko: the only place that speaks it, next to the key files in hosts/keys.py.

What paramiko leaves open is closed here: its time-outs limit silence and not duration, a lost link looks like
a clean end with status -1, a channel may be waited for without end. So a thread of its own touches the
channel (see flow.py), and the host key is compared by us, always, before anything is said about who we are.
"""

import contextlib
import logging
import random
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import paramiko

from hosts.transport.base import (
    AuthenticationError,
    BannerError,
    ByteTunnel,
    CommandSpec,
    ConnectError,
    ConnectRefused,
    ConnectTimeout,
    ForwardingForbidden,
    HostKeyChanged,
    HostKeyUnknown,
    LinkBusy,
    LinkDown,
    PublicHostKey,
    Result,
    Stream,
    TransportCounters,
    TransportError,
    check_argv,
    no_tick,
)
from hosts.transport.deadline import Deadline, DeadlinePassed, run_bounded
from hosts.transport.flow import TICK_SECONDS, Flow, FlowStream
from hosts.transport.relay import open_relay, relay_argv
from hosts.transport.ssh_pump import Bell, ChannelPump
from hosts.transport.ssh_socket import open_socket

MAX_CHANNELS = 8
"""sshd allows ten sessions a connection unless told otherwise; two are left for probes."""
MAX_LEFT_RUNNING = 2
"""A command that we gave up on keeps its session until it ends, so a link with more of them is worn out."""
CHANNEL_WAIT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
LINK_CHECK_SECONDS = 5.0
RETRY_PAUSE_SECONDS = (0.2, 0.6)
KEEPALIVE_SECONDS = 15
LOOK_UP_SECONDS = 1.0
"""How often the thread of a quiet link looks up. paramiko's own ten times a second is half of a fleet's cost."""
WEAK = {
    "ciphers": ("aes128-cbc", "aes192-cbc", "aes256-cbc", "3des-cbc"),
    "macs": ("hmac-sha1", "hmac-md5", "hmac-sha1-96", "hmac-md5-96"),
}
RSA_SIGNATURES = ("rsa-sha2-512", "rsa-sha2-256")

# Our errors carry the cause; paramiko would print each of them a second time, with a traceback.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class SshTarget:
    """Where to connect, and whether addresses of this machine itself are allowed there."""

    address: str
    port: int
    user: str
    pinned: tuple[PublicHostKey, ...] = ()
    allow_local: bool = False

    def __str__(self) -> str:
        return f"{self.user}@{self.address}:{self.port}"


@dataclass(frozen=True)
class SshLogin:
    """The keys to offer: one of ours, or those that the agent holds."""

    key: paramiko.PKey | None = field(default=None, repr=False)
    agent: bool = False


def connect_ssh(
    target: SshTarget, *, login: SshLogin, timeout: float, via: "SshTransport | None" = None
) -> "SshTransport":
    """A signed-in link within `timeout` seconds, everything included.

    A refused or garbled connection is tried once more, since sshd drops some when many arrive at once; a
    login or a host key never is. The link owns `via` and closes it. Raises ConnectError.
    """
    deadline = Deadline(timeout)
    try:
        return _connect_once(target, login, deadline, via)
    except (ConnectRefused, BannerError):
        pause = random.uniform(*RETRY_PAUSE_SECONDS)
        if deadline.remaining() < 2 * pause:
            raise
        time.sleep(pause)
        return _connect_once(target, login, deadline, via)


def _connect_once(target: SshTarget, login: SshLogin, deadline: Deadline, via: "SshTransport | None") -> "SshTransport":
    attempt = _Attempt(target, login, deadline, via)
    try:
        link = run_bounded(attempt.connect, timeout=deadline.remaining(), name=f"connect {target}")
    except DeadlinePassed as error:
        attempt.give_up()
        raise ConnectTimeout(f"{target} did not answer within the time allowed.") from error
    except BaseException:
        attempt.give_up()
        raise
    return SshTransport(link, target=target, via=via)


class _Attempt:
    """One try to connect. Runs in a thread that may be left behind, so it can be given up from outside."""

    def __init__(self, target: SshTarget, login: SshLogin, deadline: Deadline, via: "SshTransport | None") -> None:
        self._target = target
        self._login = login
        self._deadline = deadline
        self._via = via
        self._lock = threading.Lock()
        self._given_up = False
        self._sock: socket.socket | paramiko.Channel | None = None
        self._link: paramiko.Transport | None = None

    def connect(self) -> paramiko.Transport:
        with _translated(self._target):
            sock = self._open_socket()
            with self._lock:
                self._sock = sock
                self._link = link = paramiko.Transport(sock, disabled_algorithms=WEAK)
            if self._given_up:
                self.give_up()
            self._negotiate(link)
            self._check_host_key(link)
            self._sign_in(link)
            link.set_keepalive(KEEPALIVE_SECONDS)
            sock.settimeout(LOOK_UP_SECONDS)
            return link

    def give_up(self) -> None:
        with self._lock:
            self._given_up = True
            link, sock = self._link, self._sock
        if sock is not None and isinstance(sock, socket.socket):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if link is not None:
            with contextlib.suppress(DeadlinePassed, paramiko.SSHException, OSError, EOFError):
                run_bounded(link.close, timeout=CLOSE_SECONDS, name="close")

    def _open_socket(self) -> socket.socket | paramiko.Channel:
        left = max(0.1, self._deadline.remaining())
        if self._via is not None:
            return self._via.open_channel_to(self._target.address, self._target.port, timeout=left)
        target = self._target
        return open_socket(target.address, target.port, timeout=left, allow_local=target.allow_local)

    def _negotiate(self, link: paramiko.Transport) -> None:
        link.banner_timeout = link.handshake_timeout = link.auth_timeout = self._deadline.remaining() + 1
        options = link.get_security_options()
        known = [name for key in self._target.pinned for name in _algorithms(key.key_type)]
        if known:  # ask for the kind of key we know, or a second kind would look like a changed key
            offered = list(options.key_types)
            options.key_types = sorted(offered, key=lambda name: (name not in known, offered.index(name)))
        done = threading.Event()
        link.start_client(event=done)
        self._wait(link, done, BannerError(f"{self._target} does not speak SSH with us."))

    def _check_host_key(self, link: paramiko.Transport) -> None:
        offered = link.get_remote_server_key()
        key = PublicHostKey(offered.get_name(), offered.get_base64())
        if not self._target.pinned:
            raise HostKeyUnknown(
                f"{self._target} is not known yet; it shows {key.key_type} {key.fingerprint}.", key=key
            )
        if key not in self._target.pinned:
            raise HostKeyChanged(
                f"{self._target} shows {key.key_type} {key.fingerprint}, which is not the trusted key.",
                expected=self._target.pinned,
                key=key,
            )

    def _sign_in(self, link: paramiko.Transport) -> None:
        keys: list[paramiko.PKey] = list(paramiko.Agent().get_keys()) if self._login.agent else []
        if self._login.key is not None:
            keys.append(self._login.key)
        refusal = AuthenticationError(f"{self._target}: there is no key to sign in with.")
        for key in keys:
            done = threading.Event()
            link.auth_publickey(self._target.user, key, done)
            refusal = AuthenticationError(f"{self._target} refused the login with {key.fingerprint}.")
            with contextlib.suppress(paramiko.AuthenticationException):
                self._wait(link, done, ConnectError(f"{self._target} hung up during the login."))
                if link.is_authenticated():
                    return
        raise refusal

    def _wait(self, link: paramiko.Transport, done: threading.Event, otherwise: TransportError) -> None:
        """Until `done`. Raises what paramiko met, or `otherwise` when it just ended."""
        while not done.wait(0.1):
            if not link.is_active() or self._deadline.passed:
                break
        if self._deadline.passed and not done.is_set():
            raise ConnectTimeout(f"{self._target} stopped answering while connecting.")
        error = link.get_exception()
        if error is not None and not isinstance(error, EOFError):
            raise error
        if not link.is_active():
            raise otherwise


class SshTransport:
    """One signed-in link, shared by up to eight commands at once."""

    kind = "ssh"

    def __init__(self, link: paramiko.Transport, *, target: SshTarget, via: "SshTransport | None" = None) -> None:
        self.counters = TransportCounters(connections=1)
        self._link = link
        self._target = target
        self._via = via
        self._slots = threading.BoundedSemaphore(MAX_CHANNELS)
        self._left_running = 0
        self._count_lock = threading.Lock()

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes = b"",
        tick: Callable[[], None] = no_tick,
    ) -> Result:
        deadline = Deadline(timeout)
        flow = self._start(CommandSpec(check_argv(argv), stdin), deadline, tick)
        return flow.collect(deadline, tick=tick)

    def stream(self, argv: Sequence[str], *, stdin: bytes = b"", keep_stdin_open: bool = False) -> Stream:
        spec = CommandSpec(check_argv(argv), stdin, keep_stdin_open, True)
        deadline = Deadline(CHANNEL_WAIT_SECONDS)
        flow = self._start(spec, deadline, no_tick)
        flow.wait_for_begin(deadline)
        return FlowStream(flow)

    def open_tcp(self, port: int, *, host: str = "127.0.0.1", timeout: float) -> ByteTunnel:
        deadline = Deadline(timeout)
        try:
            channel = self.open_channel_to(host, port, timeout=timeout)
        except ForwardingForbidden:
            stream = self.stream(relay_argv(host, port), keep_stdin_open=True)
            return open_relay(stream, host=host, port=port, timeout=deadline.remaining())
        channel.settimeout(timeout)
        return channel

    def open_channel_to(self, host: str, port: int, *, timeout: float) -> paramiko.Channel:
        """A direct-tcpip channel. Raises ForwardingForbidden, ConnectRefused, ConnectTimeout or LinkDown."""
        what = f"Port {port} of {host}, seen from {self._target}"

        def work() -> paramiko.Channel:
            return self._link.open_channel("direct-tcpip", (host, port), ("127.0.0.1", 0), timeout=timeout)

        try:
            return run_bounded(work, timeout=timeout + 0.2, name="direct-tcpip")
        except paramiko.ChannelException as error:
            if error.code == 1:
                raise ForwardingForbidden(f"{self._target} does not allow TCP forwarding.") from error
            raise ConnectRefused(f"{what}: nothing listens there.") from error
        except (paramiko.SSHException, EOFError, OSError, DeadlinePassed) as error:
            if self._link.is_active():
                raise ConnectTimeout(f"{what}, did not answer within {timeout:g} s.") from error
            raise LinkDown(f"The connection to {self._target} is gone.") from error

    def is_alive(self, *, timeout: float) -> bool:
        return self._left_running < MAX_LEFT_RUNNING and self._answers(timeout=timeout)

    def _answers(self, *, timeout: float) -> bool:
        def probe() -> bool:
            self._link.open_session(timeout=timeout).close()
            return True

        if not self._link.is_active():
            return False
        try:
            return run_bounded(probe, timeout=timeout + 0.2, name=f"probe {self._target}")
        except paramiko.ChannelException:
            return True  # it refused one channel more than it allows, which is an answer
        except (paramiko.SSHException, EOFError, OSError, DeadlinePassed):
            return False

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self._link.sock.shutdown(socket.SHUT_RDWR)  # wakes the link's thread, which close waits for
        with contextlib.suppress(DeadlinePassed, paramiko.SSHException, OSError, EOFError):
            run_bounded(self._link.close, timeout=CLOSE_SECONDS, name=f"close {self._target}")
        if self._via is not None:
            self._via.close()

    def _start(self, spec: CommandSpec, deadline: Deadline, tick: Callable[[], None]) -> Flow:
        self._take_slot(deadline, tick)
        self.counters.execs += 1
        flow = Flow(spec.argv, stdin=spec.stdin, keep_stdin_open=spec.keep_stdin_open)
        line = shlex.join(spec.argv)

        def begin(bell: Bell) -> paramiko.Channel:
            return self._begin(line, bell, merged=spec.merge_stderr, timeout=deadline.remaining())

        ChannelPump(
            flow,
            begin=begin,
            still_answers=lambda: self._answers(timeout=LINK_CHECK_SECONDS),
            release=self._give_slot_back,
            foreign=(paramiko.SSHException, EOFError, OSError),
            streaming=spec.merge_stderr,
        ).start()
        return flow

    def _begin(self, line: str, bell: Bell, *, merged: bool, timeout: float) -> paramiko.Channel:
        """Open a channel and send the command. Only a pump calls it, for it may wait without end."""
        try:
            channel = self._link.open_session(timeout=min(timeout, CHANNEL_WAIT_SECONDS))
        except paramiko.ChannelException as error:
            if self._left_running:
                raise LinkDown(f"Commands that never ended use up the connection to {self._target}.") from error
            raise LinkBusy(f"{self._target} allows no further command at once.") from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise LinkDown(f"The connection to {self._target} does not answer any more.") from error
        channel.set_combine_stderr(merged)
        channel.in_buffer.set_event(bell)
        channel.in_stderr_buffer.set_event(bell)
        channel.exec_command(line)
        return channel

    def _give_slot_back(self, left_running: bool) -> None:
        with self._count_lock:
            self._left_running += left_running
            spent = left_running and self._left_running > MAX_LEFT_RUNNING
        if not spent:  # the server still counts that session, and two of them are all it has to spare
            self._slots.release()

    def _take_slot(self, deadline: Deadline, tick: Callable[[], None]) -> None:
        while not self._slots.acquire(timeout=min(TICK_SECONDS, max(0.01, deadline.remaining()))):
            if deadline.passed:
                raise LinkBusy(f"{self._target} is already running {MAX_CHANNELS} commands for us.")
            tick()


def _algorithms(key_type: str) -> tuple[str, ...]:
    """An RSA key signs with SHA-2 under other names than its own."""
    return RSA_SIGNATURES if key_type == "ssh-rsa" else (key_type,)


@contextlib.contextmanager
def _translated(target: SshTarget) -> Iterator[None]:
    """Everything that can go wrong while connecting, as an error of ours."""
    try:
        yield
    except TransportError:
        raise
    except TimeoutError as error:
        raise ConnectTimeout(f"{target} did not answer in time.") from error
    except ConnectionRefusedError as error:
        raise ConnectRefused(f"{target}: nothing listens there.") from error
    except OSError as error:
        raise ConnectError(f"{target}: {error.strerror or error}.") from error
    except (paramiko.SSHException, EOFError) as error:
        raise BannerError(f"{target} does not speak SSH with us: {error or 'it hung up'}.") from error
    except Exception as error:  # paramiko raises bare ones on odd servers, and values it cannot parse
        raise ConnectError(f"{target} answered in a way we do not understand: {error}.") from error
