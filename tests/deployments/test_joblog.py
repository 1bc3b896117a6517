"""The one door into a job's log: numbered, masked, every byte of a server's log once or declared dropped."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from controlpanel.live.consumer import LARGEST_FRAME
from controlpanel.live.protocol import encode
from controlpanel.masking import mask_text
from deployments import logreading
from deployments.joblog import CHUNK_BYTES, OVERLAP, JobLog, LeaseLost, LogReplaced, ServerLog
from deployments.lifecycle import JobState
from deployments.models import Job, Launch, LogChunk
from deployments.models.job import Claim
from tests.factories import make_deployment, make_job, make_launch, text_of

pytestmark = pytest.mark.django_db
SECRET = "sk-abcdefghijklmnopqrstuvwxyz0123456789"


def claimed() -> tuple[Claim, Launch]:
    deployment = make_deployment()
    claim = Job.claim(make_job(deployment, state=JobState.QUEUED).pk, owner="me")
    assert claim is not None
    return claim, make_launch(deployment)


def server(claim: Claim, launch: Launch) -> ServerLog:
    return JobLog(claim).server(launch, step="check")


def sizes(launch: Launch) -> tuple[int, int]:
    """Bytes that the chunks stand for, and where they end; without a gap or an overlap."""
    rows = list(LogChunk.objects.filter(launch=launch).order_by("seq"))
    for before, after in pairwise(rows):
        assert after.offset == before.offset + before.length
    return sum(row.length - row.dropped for row in rows), sum(row.dropped for row in rows)


def test_lines_are_numbered_without_a_gap_also_by_the_next_worker() -> None:
    claim, _ = claimed()
    JobLog(claim).say("one", step="plan")
    log = JobLog(claim)
    log.say("two\n", step="stop")
    log.say("three", step="stop")
    rows = LogChunk.objects.order_by("seq").values_list("seq", "text", "source", "step")
    assert list(rows) == [
        (1, "one\n", "panel", "plan"), (2, "two\n", "panel", "stop"), (3, "three\n", "panel", "stop"),
    ]  # fmt: skip


def test_what_is_to_be_written_soon_comes_with_the_next_write_and_before_it() -> None:
    claim, launch = claimed()
    log, rows = JobLog(claim), Launch.objects.filter(pk=launch.pk)
    version = Job.objects.get(pk=claim.job_id).version

    log.write_soon(lambda: rows.update(end_reason="first"))
    assert rows.get().end_reason == ""
    with log.transaction():
        assert rows.get().end_reason == "first"
        rows.update(end_reason="second")

    log.flush()
    assert rows.get().end_reason == "second", "it was written twice"
    assert Job.objects.get(pk=claim.job_id).version == version + 1, "its page is not drawn anew"


def test_what_is_to_be_written_soon_is_kept_when_the_write_fails_and_dropped_with_the_job() -> None:
    claim, launch = claimed()
    log, rows = JobLog(claim), Launch.objects.filter(pk=launch.pk)
    log.write_soon(lambda: rows.update(end_reason="told"))

    with pytest.raises(ZeroDivisionError), log.transaction():
        _ = 1 / 0
    assert rows.get().end_reason == ""
    Job.leave(claim, state=JobState.CANCELLED)
    with pytest.raises(LeaseLost):
        log.flush()
    assert rows.get().end_reason == ""


@pytest.mark.django_db(transaction=True)
def test_who_lost_the_job_writes_nothing() -> None:
    claim, launch = claimed()
    log = JobLog(claim)
    Job.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    with pytest.raises(LeaseLost):
        log.say("late", step="plan")
    with pytest.raises(LeaseLost):
        log.server(launch, step="check").feed(0, b"late\n")
    assert not LogChunk.objects.exists()


def test_secrets_are_masked_in_our_own_words_and_in_the_servers() -> None:
    claim, launch = claimed()
    JobLog(claim).say(f"HF_TOKEN={SECRET}", step="plan")
    log = server(claim, launch)
    data = f"loading\napi_key='{SECRET}'\ndone\n".encode()
    for position in range(0, len(data), 7):
        log.feed(position, data[position : position + 7])
    log.flush()
    text = "".join(LogChunk.objects.values_list("text", flat=True))
    assert SECRET not in text and SECRET[:20] not in text
    assert "loading" in text and "done" in text


def test_what_no_database_can_hold_is_shown_as_such() -> None:
    claim, _ = claimed()
    log = JobLog(claim)
    log.say("a\0b\ud800c", step="check")
    assert LogChunk.objects.get().text == "a\ufffdb?c\n"
    assert log.hide_in({"a\0": ["\0", 1, {"b": "\udfff"}]}) == {"a\ufffd": ["\ufffd", 1, {"b": "?"}]}


def test_half_a_line_waits_and_is_asked_for_again_by_the_next_worker() -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    assert log.feed(0, b"one\ntw") == "one\n"
    assert (log.offset, log.wanted) == (4, 6)
    assert server(claim, launch).wanted == 4
    assert log.feed(6, b"o\n") == "two\n"
    assert text_of(launch) == "one\ntwo\n"


def test_what_came_twice_is_stored_once() -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    log.feed(0, b"one\ntwo\n")
    log.feed(0, b"one\ntwo\nthree\n")
    log.feed(4, b"two\n")
    assert text_of(launch) == "one\ntwo\nthree\n"


def test_a_gap_is_declared() -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    log.feed(0, b"one\ntw")
    log.feed(100, b"later\n")
    assert sizes(launch) == (12, 94)
    assert "[94 bytes of the log were lost on the host]" in text_of(launch)
    assert "tw" in text_of(launch)


def test_a_file_that_was_cut_short_goes_on_behind_what_is_kept() -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    log.feed(0, b"one\ntwo\nha")
    log.begun_anew("truncated")
    assert log.feed(0, b"three\n") == "three\n"
    assert text_of(launch) == "one\ntwo\nhathree\n"
    assert sizes(launch) == (16, 0)


@pytest.mark.parametrize("size", [40, OVERLAP, 5 * OVERLAP])
@pytest.mark.parametrize("dies", [False, True])
def test_a_file_that_was_cut_and_grew_past_is_known_by_what_stood_before(size: int, dies: bool) -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    log.feed(0, b"old line\n" * size + b"ha", "1:2")
    if dies:
        launch.refresh_from_db()
        log = server(claim, launch)
    begin = max(0, log.asked["offset"] - OVERLAP)
    with pytest.raises(LogReplaced):
        log.feed(begin, (b"new text\n" * 2 * size)[begin:], "1:2")
    assert log.asked == {"offset": 0, "file": "1:2", "overlap": OVERLAP}
    log.feed(0, b"new text\n" * 2 * size, "1:2")
    assert text_of(launch) == "old line\n" * size + ("" if dies else "ha") + "new text\n" * 2 * size
    assert "may be missing" in LogChunk.objects.get(source="panel").text


@pytest.mark.parametrize("size", [1, 40, OVERLAP])
def test_the_same_file_goes_on_for_the_next_worker(size: int) -> None:
    claim, launch = claimed()
    data = b"0123456\n" * size * 3
    for end in range(5, len(data), 5 * size):
        log = server(claim, Launch.objects.get())
        begin = max(0, log.asked["offset"] - OVERLAP)
        log.feed(begin, data[begin:end], "1:2")
        assert Launch.objects.get().log_mark or log.offset == 0
    log.feed(log.wanted, data[log.wanted :], "1:2")
    assert text_of(launch) == data.decode() and not LogChunk.objects.filter(source="panel").exists()


def test_another_file_is_not_what_follows() -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    log.feed(0, b"one\n", "1:2")
    with pytest.raises(LogReplaced):
        log.feed(0, b"one\ntwo\n", "1:3")
    assert log.asked["offset"] == 0 and log.asked["file"] == "1:3"


def test_what_tells_a_file_again_tells_no_secret() -> None:
    """The mark cannot be tried out by who can read the database only."""
    claim, launch = claimed()
    server(claim, launch).feed(0, b"token=hunter2\n")
    assert launch.log_mark and launch.log_mark != sha256(b"token=hunter2\n").hexdigest()


def test_a_line_without_end_is_cut_into_chunks() -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    log.feed(0, b"x" * (2 * CHUNK_BYTES + 10))
    log.flush()
    assert text_of(launch) == "x" * (2 * CHUNK_BYTES + 10)
    assert max(len(chunk.text) for chunk in LogChunk.objects.all()) < 2 * CHUNK_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("before", [CHUNK_BYTES - 20, 2 * CHUNK_BYTES - 20, 3 * CHUNK_BYTES - 20])
@pytest.mark.parametrize("dies", [False, True])
def test_a_secret_in_a_line_without_end_is_hidden_and_every_byte_counted(before: int, dies: bool) -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    data = b"," * before + f"api_key='{SECRET}',".encode() + b"\xc3\xa9\xff" * CHUNK_BYTES
    while log.wanted < len(data):
        log.feed(log.wanted, data[log.wanted : log.wanted + 3 * CHUNK_BYTES])
        if dies and log.wanted < len(data):
            log = server(claim, launch)
    log.flush()
    assert text_of(launch) == mask_text(data.decode(errors="replace"))
    assert sizes(launch) == (len(data), 0)


def test_a_private_key_is_hidden_also_by_the_worker_who_takes_over() -> None:
    claim, launch = claimed()
    lines = ["before\n", "-----BEGIN RSA PRIVATE KEY-----\n", "MIIone\n", "MIItwo\n", "-----END RSA PRIVATE KEY-----\n"]
    data = "".join([*lines, "after\n"]).encode()
    for end in range(20, len(data) + 20, 20):
        log = server(claim, launch)
        log.feed(log.wanted, data[log.wanted : end])
    assert text_of(launch) == mask_text(data.decode())
    assert sizes(launch) == (len(data), 0)


def test_half_a_letter_at_the_end_is_shown_as_such() -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    log.feed(0, "é".encode()[:1])
    log.flush()
    assert text_of(launch) == "\ufffd"
    assert sizes(launch) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["\x1b", "é", "🙂"])
def test_every_chunk_of_a_line_without_end_fits_a_live_frame(letter: str) -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    data = f"token='{letter * 2 * CHUNK_BYTES}' {letter * 4 * CHUNK_BYTES}"
    log.feed(0, data.encode())
    log.flush()
    rows = list(LogChunk.objects.order_by("seq"))
    assert (
        max(len(encode({"s": "joblog:1", "items": [logreading.item(row)], "cursor": 1})) for row in rows)
        <= LARGEST_FRAME
    )
    assert "".join(row.text for row in rows) == text_of(launch) == mask_text(data)
    assert sizes(launch) == (len(data.encode()), 0)


def test_bytes_that_are_no_text() -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    log.feed(0, b"a\xff\0b\n")
    assert text_of(launch) == "a\ufffd\ufffdb\n"
    assert sizes(launch) == (5, 0)


class AnyCutting(TestCase):
    """Whatever the pieces, the repeats and the workers: the bytes are all there, once."""

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(st.sampled_from(["line\n", "half", "é\n", "\r", "\n\n", "🙂", "x" * 50]), max_size=12),
        st.lists(st.tuples(st.integers(0, 60), st.integers(1, 90), st.booleans()), max_size=15),
    )
    @pytest.mark.long
    def test_any_cutting(self, parts: list[str], reads: list[tuple[int, int, bool]]) -> None:
        claim, launch = claimed()
        data = "".join(parts).encode()
        log = server(claim, launch)
        for back, size, dies in reads:
            if dies:
                log = server(claim, launch)
            begin = max(0, log.wanted - back)
            log.feed(begin, data[begin : begin + size])
        log.feed(log.wanted, data[log.wanted :])
        log.flush()
        assert text_of(launch) == data.decode()
        assert sizes(launch) == (len(data), 0)


def test_many_pieces_that_come_at_once_are_stored_at_once(django_assert_max_num_queries: Any) -> None:
    claim, launch = claimed()
    log = server(claim, launch)
    data = b"a line of a flood\n" * (8 * CHUNK_BYTES // 18)
    with django_assert_max_num_queries(8):
        log.feed(0, data)
    assert sizes(launch) == (len(data), 0) and LogChunk.objects.count() > 7
