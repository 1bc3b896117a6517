"""A job asks the host, before it touches anything, whether the engine knows the flags; and remembers what it heard."""

from __future__ import annotations

from typing import Any

import pytest

from deployments.lifecycle import JobKind, JobState
from deployments.models import FlagCatalogue
from deployments.plan.warnings import Cure
from hosts.transport.base import CommandTimeout, LinkLost
from tests.deployments.catalogue.samples import SGLANG
from tests.deployments.support import OOM, READY, Story
from tests.factories import ARGV

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
KNOWN = ("--model-path", "--tp-size", "--mem-fraction-static", "--context-length", "--kv-cache-dtype")
FLAGS = [flag.plain() for flag in SGLANG.flags] + [{"names": ["--port"], "type": "int"}]
ANSWER: dict[str, Any] = {
    "interpreter": ARGV[0], "package": "/opt/sglang/lib/sglang", "version": "0.5.11", "stamp": "aa", "same": False,
    "arguments": FLAGS, "gaps": [],
}  # fmt: skip


def without(name: str) -> dict[str, Any]:
    return ANSWER | {"arguments": [flag for flag in FLAGS if name not in flag["names"]], "stamp": "bb"}


def flags_row(story: Story) -> dict[str, str]:
    assert story.job.plan is not None
    return next(row for row in story.job.plan["sections"][0]["rows"] if row["label"] == "Flags")


def asked(story: Story) -> list[str]:
    """With which stamp the host was asked, each time."""
    calls = (call.stdin.decode() for call in story.host.transport.calls if b"read_flags()" in call.stdin)
    return [call.partition("KNOWN=")[2].partition("\n")[0].strip("'") for call in calls]


def test_known_flags_are_said_to_be_and_kept(serving: Story) -> None:
    serving.host.flags = ANSWER
    serving.request()
    assert serving.work().state == JobState.WAITING
    assert flags_row(serving)["status"] == "ok" and "SGLang 0.5.11" in flags_row(serving)["detail"]
    kept = FlagCatalogue.objects.get()
    assert (kept.version, kept.interpreter, kept.source, kept.problem) == ("0.5.11", ARGV[0], "source", "")
    assert kept.catalogue is not None and kept.catalogue.by_name["--port"].type == "int" and kept.read_at is not None


def test_a_flag_that_the_engine_lacks_ends_the_job_with_nothing_touched(serving: Story) -> None:
    serving.host.flags = without("--kv-cache-dtype")
    serving.request()
    job = serving.work()
    assert job.state == JobState.FAILED and not job.touched and 100 in serving.host.machine.procs
    assert "SGLang 0.5.11 does not know --kv-cache-dtype." in job.summary


def test_the_same_files_are_not_read_again_and_other_ones_are(serving: Story) -> None:
    serving.host.flags = ANSWER
    serving.request()
    serving.approve()
    serving.work_on()
    assert asked(serving) == ["", "aa"], "for the plan, and at the stop, the last step before which nothing is touched"
    serving.host.flags = without("--context-length")
    serving.request()
    assert serving.work().state == JobState.FAILED and asked(serving)[-1] == "aa"
    assert serving.job.steps.get(state="failed").data["cure"] == Cure.FLAGS
    assert FlagCatalogue.objects.get().stamp == "bb"


def test_an_engine_that_changed_after_the_approval_stops_nothing(serving: Story) -> None:
    serving.host.flags = ANSWER
    serving.request()
    serving.approve()
    serving.host.flags = without("--mem-fraction-static")
    job = serving.work_on()
    assert job.state == JobState.FAILED and not job.touched and 100 in serving.host.machine.procs
    assert "does not know --mem-fraction-static" in job.summary


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (None, "SGLang is not installed for /opt/sglang/bin/python."),
        (ANSWER | {"arguments": [{"names": ["--a b"]}]}, "is not understood"),
        (ANSWER | {"arguments": []}, "is not understood"),
    ],
)
def test_what_could_not_be_read_never_stands_in_the_way(
    serving: Story, flags: dict[str, Any] | None, reason: str
) -> None:
    serving.host.flags = flags
    serving.request()
    assert serving.work().state == JobState.WAITING
    row = flags_row(serving)
    assert row["status"] == "unknown" and reason in row["detail"]


def test_a_host_too_slow_to_read_is_unknown_and_a_lost_link_is_as_ever(serving: Story) -> None:
    asks = lambda call: b"read_flags()" in call.stdin  # noqa: E731
    serving.host.transport.on(asks, reply=CommandTimeout("sh did not end within 20 s."))
    serving.request()
    assert serving.work().state == JobState.WAITING
    assert flags_row(serving)["detail"] == "sh did not end within 20 s."
    serving.answer("discard")
    serving.work_on()
    serving.host.transport.on(asks, reply=LinkLost("The connection broke."))
    serving.request()
    assert serving.work().state == JobState.FAILED and not serving.job.touched


def test_what_is_known_from_the_help_text_only_warns(serving: Story) -> None:
    serving.host.flags = ANSWER
    serving.request()
    serving.work()
    serving.answer("discard")
    serving.work_on()
    lacking = [flag for flag in FLAGS if "--kv-cache-dtype" not in flag["names"]]
    FlagCatalogue.objects.update(source="help", flags=lacking)
    serving.request()
    assert serving.work().state == JobState.WAITING
    assert serving.job.plan is not None and not serving.job.plan["blocked"]
    assert "does not know --kv-cache-dtype" in serving.job.plan["warnings"][0]["text"]


def test_to_stop_a_server_its_flags_do_not_matter(serving: Story) -> None:
    serving.host.flags = without("--kv-cache-dtype")
    serving.request(JobKind.STOP)
    assert serving.work().state == JobState.WAITING and asked(serving) == []


def test_once_something_was_stopped_nothing_of_the_flags_stands_in_the_way_of_the_way_back(serving: Story) -> None:
    serving.host.flags = ANSWER
    serving.request()
    serving.approve()
    serving.host.log, serving.host.exit_code = OOM, 1

    def recover() -> None:
        serving.host.log, serving.host.exit_code = READY, None
        serving.host.flags = without("--context-length")

    serving.host.after["follow"] = recover
    serving.work_on()
    assert "r1 serves again" in serving.job.summary
    assert len(asked(serving)) == 2, "for the plan and at the stop; the way back asks nothing"
