"""The one door through which text gets into a job's log: masked, numbered, stored, then hinted."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.crypto import constant_time_compare, salted_hmac

from controlpanel.live import hints
from controlpanel.masking import StreamMasker, mask_text, mask_values
from deployments.loglines import LineCount
from deployments.models import Job, Launch, LogChunk
from deployments.models.job import Claim
from deployments.remote.script import Said
from deployments.secrets import values_to_hide

CHUNK_BYTES = 32 * 1024
"""Of one row: small enough for one live frame."""
OVERLAP = 1024
"""Bytes already read that the host sends again before new ones: by them a file that was cut and has grown is known."""
KEPT_BYTES = 1024 * 1024
LOG_FIELDS = ("log_file", "log_begins_at", "log_mark")

UNKNOWN = "What came before is kept here; what was written in between may be missing."
SAID = {
    "moved": "The server's log was renamed or deleted on the host; the file that the server has open is followed.",
    "nolog": "The server's log was moved away or deleted on the host and cannot be followed: what it writes is missing "
    "here.",
}
BEGUN_ANEW = {
    "truncated": f"The server's log was cut short on the host. {UNKNOWN}",
    "replaced": f"The server's log was cut or replaced on the host. {UNKNOWN}",
    "lost": "The server's log was moved away on the host, and the file that the server writes into cannot be followed: "
    "what it writes is missing here. The new file with the log's name is followed.",
    "renewed": "The server has begun a new log on the host; what came before is kept here.",
}


class LeaseLost(Exception):
    """The job is not ours any more: another worker has it, or it has ended. Stop at once, write nothing."""


class LogReplaced(Exception):
    """The host's file is not the one that was read so far. This was said; follow again from the file's beginning."""


def storable(text: str) -> str:
    """What a database can hold of a text from outside: PostgreSQL takes no NUL, and none takes half a character."""
    return text.encode(errors="replace").decode().replace("\0", "\ufffd")


def storable_in(value: Any) -> Any:
    """The same of plain data."""
    if isinstance(value, dict):
        return {storable(str(name)): storable_in(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [storable_in(member) for member in value]
    return storable(value) if isinstance(value, str) else value


class JobLog:
    """Writes one job's log for as long as ``claim`` holds. Not shared between threads."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.job_id = claim.job_id
        self._next, self._count = _counted(claim.job_id)
        self._waiting: list[LogChunk] = []
        self._writes: list[Callable[[], object]] = []
        self.known = values_to_hide(claim.job_id)
        """Secrets to be hidden wherever they stand. None is set while a job goes on."""

    def hide(self, text: str) -> str:
        """The text as it may be stored and shown."""
        return storable(mask_text(text, known=self.known))

    def hide_in(self, value: Any) -> Any:
        """Plain data (dicts, lists, text, numbers) as it may be stored and shown."""
        return storable_in(mask_values(value, known=self.known))

    def say(self, text: str, *, step: str) -> None:
        """One line of the panel's own, for the reader of the job, stored at once."""
        self.store(self._line(text, step=step))

    def say_soon(self, text: str, *, step: str) -> None:
        """A line that is stored with the next write of the job: a transaction of its own takes its time."""
        self._waiting.append(self._line(text, step=step))

    def write_soon(self, write: Callable[[], object]) -> None:
        """As ``say_soon``, of a write to the job's rows: it is done in the next transaction, before what that is for.

        Not for what is read back from the database before then.
        """
        self._writes.append(write)

    def flush(self) -> None:
        """Store what waits."""
        if self._waiting or self._writes:
            self.store()

    def forget(self) -> None:
        """Let go of the writes that wait; lines are kept."""
        self._writes = []

    def _line(self, text: str, *, step: str) -> LogChunk:
        return LogChunk(source=LogChunk.Source.PANEL, step=step, text=self.hide(text.rstrip("\n")) + "\n")

    def store(self, *chunks: LogChunk, launch: Launch | None = None) -> None:
        """Number chunks and store all of them or none, and with them how ``launch``'s log is read on.

        Raises LeaseLost.
        """
        with self.transaction(*chunks):
            if launch is not None:
                launch.save(update_fields=LOG_FIELDS)

    @contextlib.contextmanager
    def transaction(self, *chunks: LogChunk, **fields: Any) -> Iterator[None]:
        """A transaction that holds only while the job is ours; what waits to be said, and ``chunks``, come with it.

        ``fields`` of the job are set in the statement that makes sure of that. Raises LeaseLost.
        """
        waiting, self._waiting = self._waiting, []
        writes, self._writes = self._writes, []
        stored, count = [*waiting, *chunks], self._count.copy()
        if writes:
            fields.setdefault("version", F("version") + 1)
        try:
            with transaction.atomic():
                if not Job.held(self._claim).update(**(fields or {"owner": self._claim.owner})):
                    raise LeaseLost
                for seq, chunk in enumerate(stored, self._next):
                    chunk.job_id, chunk.seq = self.job_id, seq
                    chunk.line, chunk.lines = count.take(chunk.source, chunk.text, dropped=chunk.dropped)
                LogChunk.objects.bulk_create(stored)
                for write in writes:
                    write()
                yield
        except BaseException:
            self._waiting = [*waiting, *self._waiting]
            self._writes = [*writes, *self._writes]
            raise
        self._next, self._count = self._next + len(stored), count
        if stored:
            hints.hint(f"joblog:{self.job_id}")
        if writes:
            hints.hint(f"job:{self.job_id}")

    def server(self, launch: Launch, *, step: str) -> ServerLog:
        """Where the bytes of this launch's own log go; it goes on where an earlier worker stopped."""
        return ServerLog(self, launch, step)


def _counted(job_id: int) -> tuple[int, LineCount]:
    """The number of the next chunk of a job's log, and its lines so far."""
    chunks = LogChunk.objects.filter(job_id=job_id).order_by("-seq")
    last = chunks.only("seq", "line", "lines").first()
    if last is None:
        return 1, LineCount()
    # The panel's own lines always end.
    servers = chunks.filter(source=LogChunk.Source.SERVER).exclude(text="", dropped=0)
    text = servers.values_list("text", flat=True).first() or ""
    is_open = text != "" and not text.endswith("\n")
    return last.seq + 1, LineCount(last.line + last.lines, {LogChunk.Source.SERVER} if is_open else set())


class ServerLog:
    """One server's log as it arrives: no gap, no repeat, secrets masked.

    Whole lines are stored; the bytes behind the last line end, and those that may be the beginning of a secret,
    wait and are not counted, so that a worker that takes over asks for them again.

    Which file it is, and a mark of its last bytes that were stored, are kept with the launch: a file that was cut or
    replaced meanwhile is read from its beginning, and never taken for what follows.
    """

    def __init__(self, log: JobLog, launch: Launch, step: str) -> None:
        self._log = log
        self._launch = launch
        self._step = step
        # Bytes that are no text are escaped, so that what the masker holds back can be counted in bytes.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._masker = StreamMasker(known=log.known)
        self._pending = b""
        self._waiting = 0  # bytes that the masker or the decoder holds back
        self._recent = b""  # raw bytes up to the last that arrived
        self._ready: list[LogChunk] = []  # to be stored together
        stored = LogChunk.objects.filter(job_id=log.job_id, launch=launch).order_by("-offset", "-seq").first()
        self.offset = stored.offset + stored.length if stored else 0
        """The first byte of the host's file that is not stored."""

    @property
    def asked(self) -> dict[str, Any]:
        """What the script that follows is to send, as its values."""
        return {"offset": self.wanted - self._shift, "file": self._launch.log_file, "overlap": OVERLAP}

    @property
    def _shift(self) -> int:
        """Where the first byte of the host's file stands in what is stored, after it was cut short."""
        return self._launch.log_begins_at

    def take(self, said: Said) -> str:
        """One line of the script that follows; what is not about the log is left alone.

        Returns the text that was stored. Raises LogReplaced.
        """
        if said.word == "log":
            offset, _, *file = said.rest
            return self.feed(int(offset), said.payload, *file)
        if said.word in BEGUN_ANEW:
            return self.begun_anew(said.word)
        if said.word in SAID:
            self._log.say(SAID[said.word], step=self._step)
        return ""

    @property
    def wanted(self) -> int:
        """The first byte of the host's file that has not arrived."""
        return self.offset + self._waiting + len(self._pending)

    def feed(self, offset: int, data: bytes, file: str = "") -> str:
        """Take bytes that begin at ``offset`` and return the text that was stored of them.

        A repeat is cut off; a gap is declared as dropped. Raises LogReplaced for a repeat of other bytes.
        """
        offset += self._shift
        if not self._is_same_log(offset, data, file):
            self.begun_anew("replaced", file=file)
            raise LogReplaced
        if offset < self.wanted:
            data = data[self.wanted - offset :]
        elif offset > self.wanted:
            self.flush()
            gap = offset - self.offset
            self._recent = b""
            self._keep(f"[{gap} bytes of the log were lost on the host]\n", length=gap, dropped=gap)
        self._launch.log_file = file
        self._pending += data
        self._recent += data
        text = ""
        while cut := self._whole_lines():
            text += self._take(cut)
        self._store()
        self._recent = self._recent[-min(OVERLAP + self._not_stored, KEPT_BYTES) :]
        return text

    def _is_same_log(self, offset: int, data: bytes, file: str) -> bool:
        """Do bytes that begin at ``offset`` go on with the log as it was read so far?"""
        if file != (self._launch.log_file or file):
            return False
        if not self._recent and self._launch.log_mark:  # as another worker left it, which had the bytes
            begin = self.offset - self._marked_bytes(self.offset)
            if offset > begin or offset + len(data) < self.offset:
                return True  # it does not show them
            again = data[begin - offset : self.offset - offset]
            if not constant_time_compare(_mark(again), self._launch.log_mark):
                return False
            self._recent = again
            return True
        begin = self.wanted - len(self._recent)
        first, last = max(offset, begin), min(offset + len(data), self.wanted)
        return first >= last or data[first - offset : last - offset] == self._recent[first - begin : last - begin]

    def begun_anew(self, why: str, *, file: str = "") -> str:
        """The host's file is another now, or cut short: its first byte is what follows here, and ``why`` is said."""
        text = self.flush()
        self._recent = b""
        self._launch.log_file, self._launch.log_begins_at, self._launch.log_mark = file, self.offset, ""
        self._log.say_soon(BEGUN_ANEW[why], step=self._step)
        self._log.store(launch=self._launch)
        return text

    @property
    def _not_stored(self) -> int:
        """Bytes that have arrived and are not stored."""
        return self._waiting + len(self._pending)

    def _marked_bytes(self, offset: int) -> int:
        """How many bytes before ``offset`` the host shows again: all when there are few."""
        return min(OVERLAP, offset - self._shift)

    def _whole_lines(self) -> int:
        """Bytes up to the last line end within one chunk; a line longer than a chunk is cut."""
        head = self._pending[:CHUNK_BYTES]
        cut = max(head.rfind(b"\n"), head.rfind(b"\r")) + 1
        return cut or (CHUNK_BYTES if len(head) == CHUNK_BYTES else 0)

    def flush(self) -> str:
        """Store what still waits for its line end (the server has ended)."""
        text = self._take(len(self._pending))
        rest = self._masker.feed(self._decoder.decode(b"", final=True)) + self._masker.flush()
        length, self._waiting = self._waiting, 0
        text += self._keep(rest, length=length)
        self._store()
        return text

    def _take(self, length: int) -> str:
        """Mask the next bytes, and keep what may be shown with what it stands for."""
        piece, self._pending = self._pending[:length], self._pending[length:]
        text = self._masker.feed(self._decoder.decode(piece))
        undecoded, _ = self._decoder.getstate()
        waiting = self._masker.waiting + len(undecoded)
        length, self._waiting = self._waiting + len(piece) - waiting, waiting
        return self._keep(text, length=length)

    def _keep(self, text: str, *, length: int, dropped: int = 0) -> str:
        """Have it stored next."""
        if not text and not length:
            return ""
        # PostgreSQL cannot hold a NUL in text.
        text = text.encode(errors="surrogateescape").decode(errors="replace").replace("\0", "\ufffd")
        # What the masker held back may come at once. The last part stands for the bytes of all.
        *parts, last = _parts(text)
        self._ready += [*(self._chunk(part) for part in parts), self._chunk(last, length=length, dropped=dropped)]
        self.offset += length
        return text

    def _store(self) -> None:
        """In one transaction: of a flood each would take longer than to mask what it stores."""
        if not self._ready:
            return
        marked = self._marked_bytes(self.offset)
        end = len(self._recent) - self._not_stored
        self._launch.log_mark = _mark(self._recent[end - marked : end]) if 0 < marked <= end else ""
        ready, self._ready = self._ready, []
        self._log.store(*ready, launch=self._launch)

    def _chunk(self, text: str, *, length: int = 0, dropped: int = 0) -> LogChunk:
        return LogChunk(
            source=LogChunk.Source.SERVER,
            step=self._step,
            launch=self._launch,
            offset=self.offset,
            length=length,
            dropped=dropped,
            text=text,
        )


def _mark(data: bytes) -> str:
    """Known only to this panel: the bytes may be a secret's."""
    return salted_hmac("joblog", data, algorithm="sha256").hexdigest()


def _parts(text: str) -> list[str]:
    """A text in parts that each fit one live frame, whatever letters they are made of."""
    width = CHUNK_BYTES if len(text) <= CHUNK_BYTES else CHUNK_BYTES // 2
    return [text[begin : begin + width] for begin in range(0, len(text), width)] or [""]


def pieces_of(launch: Launch) -> Iterator[tuple[int, str]]:
    """What is stored of a launch's own log, piece by piece with its number in the job's log: it may be large."""
    chunks = LogChunk.objects.filter(launch=launch).order_by("offset", "seq").values_list("seq", "text")
    return iter(chunks.iterator(chunk_size=64))
