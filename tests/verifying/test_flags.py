"""Which flags an engine has, read from real files over ssh and pct; and a plan that knows it."""

from __future__ import annotations

import pytest

from deployments import services
from deployments.catalogue import store
from deployments.catalogue.program import Program, program_of
from deployments.lifecycle import JobState
from deployments.models import FlagCatalogue
from hosts import links
from lab.fleet import Fleet
from tests.support.installed import VENV, install
from tests.support.story import HASTE, Place, Story, one_server, sglang, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]


@pytest.fixture(params=["ssh", pytest.param("pct", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, story: Story, fleet: Fleet) -> Place:
    """A machine with an engine of its own in /srv/venv, whose source would need torch if anybody imported it."""
    found = story.add_host(fleet.host("gpu1")) if request.param == "ssh" else story.add_container(fleet.container(129))
    install(found.machine)
    return found


def read_flags(story: Story, place: Place, command: str) -> FlagCatalogue:
    """Ask for it as the Check button does, and do it as a worker does, over the host's own link."""
    program = program_of("sglang", command.split(), env={}, workdir="")
    assert isinstance(program, Program)
    row = services.request_flags(place.host, program, actor=story.actor, address="")
    store.run_reading(row.pk)

    def ended() -> bool:
        row.refresh_from_db()
        return row.finished_at is not None

    until(ended, seconds=90, what="the flags are read, here or by a worker that was rung")
    links.POOL.close_all()
    return FlagCatalogue.objects.get(pk=row.pk)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        (f"{VENV}/bin/python3 -m sglang.launch_server", ()),
        (f"{VENV}/bin/sglang serve", ("model",)),
        (f"numactl -N 0 {VENV}/bin/python3 {VENV}/bin/sglang serve", ("model",)),
    ],
)
def test_flags_are_read_from_source_that_nobody_imports(
    story: Story, place: Place, command: str, names: tuple[str, ...]
) -> None:
    row = read_flags(story, place, command)
    assert row.problem == "" and row.source == "source" and row.version == "0.5.18", row.problem
    assert row.interpreter == f"{VENV}/bin/python3" and row.package.startswith(VENV)
    found = row.catalogue
    assert found is not None and found.is_sure and found.count == 8
    assert found.by_name["--kv-cache-dtype"].choices == ("auto", "bf16") and found.by_name["--port"].default == 30000
    assert tuple(flag.names[0] for flag in found.positionals) == names
    assert not list(place.machine.seen(VENV).rglob("__pycache__"))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/srv/nowhere/bin/python -m sglang.launch_server", "There is no program /srv/nowhere/bin/python."),
        ("python3 -m sglang.launch_server", "SGLang is not installed for"),
    ],
)
def test_what_is_not_there_is_told(story: Story, place: Place, command: str, reason: str) -> None:
    row = read_flags(story, place, command)
    assert reason in row.problem and row.catalogue is None


def test_an_interpreter_behind_a_shell_script_is_found(story: Story, place: Place) -> None:
    row = read_flags(story, place, "/lab/bin/python -m sglang.launch_server")
    assert row.problem == "" and row.source == "source" and row.version.startswith("0.5."), row.problem
    found = row.catalogue
    assert found is not None and found.count > 80
    assert found.by_name["--tp-size"].takes == "1" and "bf16" in (found.by_name["--kv-cache-dtype"].choices or ())


def test_a_plan_stops_nothing_for_a_flag_that_the_installed_engine_lacks(story: Story, place: Place) -> None:
    cards = (0,)
    deployment = story.deploy_sglang(place, cards=cards)
    story.start(deployment)
    serving = one_server(place, deployment.port)
    wrong = [f"{VENV}/bin/python3", *sglang("--kv-cache-dtype", "fp8_e4m3", cards=1)[1:]]
    job = story.ask(deployment, revision=story.add_revision(deployment, wrong, env=HASTE))
    story.wait_for(job, JobState.FAILED)
    assert "--kv-cache-dtype does not take “fp8_e4m3”" in job.summary and not job.touched, told(job)
    assert one_server(place, deployment.port) == serving
    source = next(place.machine.seen(VENV).rglob("server_args.py"))
    source.write_text(source.read_text().replace('"bf16"]', '"bf16", "fp8_e4m3"]'))
    again = story.ask(deployment, revision=deployment.profile.newest)
    gate = story.gate(again, "plan")
    again.refresh_from_db()
    assert again.plan is not None and not again.plan["blocked"], "the file on the host has changed, and is read anew"
    story.answer(gate, "discard")
    story.wait_for_end(again)
