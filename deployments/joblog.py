"""The one door through which text gets into a job's log: masked, numbered, stored, then hinted."""

from __future__ import annotations

import codecs

from django.db import transaction
from django.db.models import Max

from controlpanel.live import hints
from controlpanel.masking import StreamMasker, mask_text
from deployments.models import Job, Launch, LogChunk
from deployments.models.job import Claim

CHUNK_BYTES = 32 * 1024
"""Of one row: small enough for one live frame."""


class LeaseLost(Exception):
    """The job is not ours any more: another worker has it, or it has ended. Stop at once, write nothing."""


class JobLog:
    """Writes one job's log for as long as ``claim`` holds. Not shared between threads."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self.job_id = claim.job_id
        self._next = (LogChunk.objects.filter(job_id=claim.job_id).aggregate(last=Max("seq"))["last"] or 0) + 1

    def say(self, text: str, *, step: str) -> None:
        """One line of the panel's own, for the reader of the job."""
        self.store(self._line(text, step))

    def _line(self, text: str, step: str) -> LogChunk:
        return LogChunk(source=LogChunk.Source.PANEL, step=step, text=mask_text(text.rstrip("\n")) + "\n")

    def store(self, *chunks: LogChunk) -> None:
        """Number chunks and store all of them or none. Raises LeaseLost."""
        with transaction.atomic():
            if not Job.held(self._claim).update(owner=self._claim.owner):
                raise LeaseLost
            for seq, chunk in enumerate(chunks, self._next):
                chunk.job_id, chunk.seq = self.job_id, seq
                chunk.save(force_insert=True)
        self._stored(len(chunks))

    def say_held(self, text: str, *, step: str) -> None:
        """As ``say``, inside a transaction that has made sure that the job is ours."""
        chunk = self._line(text, step)
        chunk.job_id, chunk.seq = self.job_id, self._next
        chunk.save(force_insert=True)
        self._stored(1)

    def _stored(self, count: int) -> None:
        self._next += count
        hints.hint(f"joblog:{self.job_id}")

    def server(self, launch: Launch, *, step: str, begins_at: int = 0) -> ServerLog:
        """Where the bytes of this launch's own log go; it goes on where an earlier worker stopped.

        ``begins_at``: where the first byte of the host's file stands in what is stored, after it was cut short.
        """
        return ServerLog(self, launch, step, begins_at=begins_at)


class ServerLog:
    """One server's log as it arrives: no gap, no repeat, secrets masked.

    Whole lines are stored; the bytes behind the last line end, and those that may be the beginning of a secret,
    wait and are not counted, so that a worker that takes over asks for them again.
    """

    def __init__(self, log: JobLog, launch: Launch, step: str, *, begins_at: int = 0) -> None:
        self._log = log
        self._launch = launch
        self._step = step
        # Bytes that are no text are escaped, so that what the masker holds back can be counted in bytes.
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._masker = StreamMasker()
        self._pending = b""
        self._waiting = 0  # bytes that the masker or the decoder holds back
        self._shift = begins_at
        stored = LogChunk.objects.filter(job_id=log.job_id, launch=launch).order_by("-offset", "-seq").first()
        self.offset = stored.offset + stored.length if stored else 0
        """The first byte of the host's file that is not stored."""

    @property
    def wanted(self) -> int:
        """The first byte of the host's file that has not arrived."""
        return self.offset + self._waiting + len(self._pending)

    def feed(self, offset: int, data: bytes) -> str:
        """Take bytes that begin at ``offset`` and return the text that was stored of them.

        A repeat is cut off; a gap is declared as dropped.
        """
        offset += self._shift
        if offset < self.wanted:
            data = data[self.wanted - offset :]
        elif offset > self.wanted:
            self.flush()
            gap = offset - self.offset
            self._keep(f"[{gap} bytes of the log were lost on the host]\n", length=gap, dropped=gap)
        self._pending += data
        text = ""
        while cut := self._whole_lines():
            text += self._store(cut)
        return text

    def begun_anew(self) -> int:
        """The host's file was cut short: its first byte is now what follows here. Returns where that is."""
        self.flush()
        self._shift = self.offset
        return self._shift

    @property
    def wanted_in_file(self) -> int:
        """As ``wanted``, counted from the beginning of the host's file as it is now."""
        return self.wanted - self._shift

    def _whole_lines(self) -> int:
        """Bytes up to the last line end within one chunk; a line longer than a chunk is cut."""
        head = self._pending[:CHUNK_BYTES]
        cut = max(head.rfind(b"\n"), head.rfind(b"\r")) + 1
        return cut or (CHUNK_BYTES if len(head) == CHUNK_BYTES else 0)

    def flush(self) -> str:
        """Store what still waits for its line end (the server has ended)."""
        text = self._store(len(self._pending))
        rest = self._masker.feed(self._decoder.decode(b"", final=True)) + self._masker.flush()
        length, self._waiting = self._waiting, 0
        return text + self._keep(rest, length=length)

    def _store(self, length: int) -> str:
        """Mask the next bytes, and store what may be shown with what it stands for."""
        piece, self._pending = self._pending[:length], self._pending[length:]
        text = self._masker.feed(self._decoder.decode(piece))
        undecoded, _ = self._decoder.getstate()
        waiting = self._masker.waiting + len(undecoded)
        length, self._waiting = self._waiting + len(piece) - waiting, waiting
        return self._keep(text, length=length)

    def _keep(self, text: str, *, length: int, dropped: int = 0) -> str:
        if not text and not length:
            return ""
        # PostgreSQL cannot hold a NUL in text.
        text = text.encode(errors="surrogateescape").decode(errors="replace").replace("\0", "\ufffd")
        # What the masker held back may come at once. The last part stands for the bytes of all.
        *parts, last = _parts(text)
        chunks = [self._chunk(part) for part in parts]
        self._log.store(*chunks, self._chunk(last, length=length, dropped=dropped))
        self.offset += length
        return text

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


def _parts(text: str) -> list[str]:
    """A text in parts that each fit one live frame, whatever letters they are made of."""
    width = CHUNK_BYTES if len(text) <= CHUNK_BYTES else CHUNK_BYTES // 2
    return [text[begin : begin + width] for begin in range(0, len(text), width)] or [""]


def text_of(launch: Launch) -> str:
    """All that is stored of a launch's own log."""
    return "".join(LogChunk.objects.filter(launch=launch).order_by("offset", "seq").values_list("text", flat=True))
