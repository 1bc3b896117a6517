"""By which way a server is started, what it keeps, and what stands in the way of it."""

from dataclasses import replace
from typing import Any

import pytest

from deployments.plan.container_change import DIRECTORY, FILES, PROJECT, SERVICE, ContainerTold
from deployments.plan.inputs import Recipe
from deployments.plan.plan import Plan, make_plan
from deployments.plan.preflight import cards_wanted, several_machines
from deployments.plan.serving import KnownLaunch
from deployments.plan.start import LINGER
from deployments.plan.unit_change import UnitTold
from deployments.plan.unit_file import read_unit
from deployments.plan.ways import By, Way
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from hosts.probe.processes import Limit
from tests.deployments.machine import BOOT, SGLANG, Machine, Proc, idle_machine, serving_machine
from tests.deployments.plan.test_plan import asked

ID = "a" * 64
OWN_UNIT = {100: "/system.slice/relaunch-abc.service", 101: "/system.slice/relaunch-abc.service"}
CHAT = {100: "/system.slice/chat.service"}
SAME = Recipe("qwen r2", tuple(SGLANG.split()), "c", 30000)


def facts_of(machine: Machine, *, init: str = "systemd", uid: int = 0, **more: Any) -> HostFacts:
    """With this process 1, as seen by this login."""
    facts = machine.facts()
    assert not isinstance(facts.host, Unknown) and not isinstance(facts.processes, Unknown)
    table = {**facts.processes.by_pid, 1: replace(facts.processes.by_pid[1], comm=init)}
    return replace(facts, host=replace(facts.host, uid=uid), processes=replace(facts.processes, by_pid=table), **more)


def plan(machine: Machine | None = None, *, facts: HostFacts | None = None, **values: Any) -> Plan:
    machine = machine or serving_machine()
    usual: dict[str, Any] = {"new": SAME, "facts": facts or facts_of(machine, paths={})}
    return make_plan(asked(machine, **(usual | values)))


def way(made: Plan) -> str:
    assert made.start is not None
    return str(made.start.way)


def blocking(made: Plan) -> str:
    return " ".join(warning["text"] for warning in made.data["warnings"] if warning["blocks"])


def unit_told(text: str = f"ExecStart={SGLANG}", *, main: int = 100, made_up: bool = False, **more: Any) -> UnitTold:
    shown = {"LoadState": "loaded", "MainPID": str(main), "DynamicUser": "yes" if made_up else "no"}
    return UnitTold("chat.service", read_unit(f"[Service]\n{text}\n"), shown=shown, **more)


def service_told() -> ContainerTold:
    labels = {PROJECT: "llm", SERVICE: "chat", DIRECTORY: "/srv/llm", FILES: "/srv/llm/compose.yaml"}
    return ContainerTold("llm-chat-1", SAME.argv, labels=labels)


@pytest.mark.parametrize(
    ("init", "uid", "lingers", "expected"),
    [
        ("systemd", 0, False, "transient"),
        ("init", 0, False, "wrapper"),
        ("systemd", 1000, False, "wrapper"),
        ("systemd", 1000, True, "transient"),
    ],
)
def test_by_itself_a_unit_is_made_where_that_can_be(init: str, uid: int, lingers: bool, expected: str) -> None:
    facts = facts_of(serving_machine(), init=init, uid=uid, paths={f"{LINGER}llm": lingers})
    made = plan(facts=facts, login="llm")
    assert way(made) == expected and not made.data["blocked"], made.data["warnings"]
    assert made.data["sections"][-1]["rows"][0]["detail"], "it says why"
    refused = plan(facts=facts, login="llm", started_by=Way(By.TRANSIENT))
    assert refused.data["blocked"] == (expected == "wrapper")


def test_what_the_deployment_says_is_taken() -> None:
    assert way(plan(started_by=Way(By.WRAPPER))) == "wrapper"
    assert way(plan(started_by=Way(By.UNIT, "chat.service"))) == "unit chat.service"


def test_the_unit_made_for_a_launch_is_its_own_and_is_ended_whole() -> None:
    machine = serving_machine().add(Proc(60, 1005, "stray"))
    machine.cgroups = {**OWN_UNIT, 60: OWN_UNIT[100]}
    launch = KnownLaunch("abc", BOOT, 100, 1000, started_by=Way(By.TRANSIENT))
    first = plan(machine, launch=launch)
    assert first.manager is not None and str(first.manager) == "systemd unit relaunch-abc.service"
    told = replace(first.manager.told, members=(100, 101, 60), restart="no", at_boot=False)
    made = plan(machine, launch=launch, told=told)
    assert [row["pid"] for row in made.data["stops"]] == [100, 101, 102, 103, 60]
    assert not made.beside and not made.data["warnings"] and way(made) == "transient"
    wrapped = plan(machine, launch=replace(launch, started_by=Way(By.WRAPPER)), told=told)
    assert wrapped.manager is None, "another unit around a process of ours is that of a login"


def test_a_server_of_a_unit_is_started_by_it_again() -> None:
    machine = serving_machine()
    machine.cgroups = CHAT
    first = plan(machine, launch=None)
    assert way(first) == "unit chat.service" and first.start is not None and first.start.tool == ("systemctl",)
    made = plan(machine, launch=None, starter=unit_told())
    assert way(made) == "unit chat.service" and made.start is not None and made.start.writes is None
    assert not any("beside" in warning["why"] for warning in made.data["warnings"]), made.data["warnings"]


def test_what_will_be_written_is_shown_and_bound_to_the_approval() -> None:
    machine = serving_machine()
    machine.cgroups = CHAT
    other = replace(SAME, argv=(*SAME.argv, "--context-length", "1"))
    made = plan(machine, launch=None, starter=unit_told(), new=other)
    writes = made.data["start"]["writes"]
    assert writes["path"].endswith("chat.service.d/relaunch.conf") and "--context-length 1" in writes["text"]
    assert made.hash != plan(machine, launch=None, starter=unit_told(own_drop_in="x"), new=SAME).hash
    refused = plan(machine, launch=None, starter=unit_told(containers=True), new=other)
    assert "can lose their cards" in blocking(refused)


def test_a_unit_that_only_started_what_started_the_server_is_not_asked_to() -> None:
    machine = serving_machine()
    machine.cgroups = CHAT
    assert way(plan(machine, launch=None, starter=unit_told(main=7))) == "transient"


def test_a_unit_that_is_not_there_is_told() -> None:
    made = plan(started_by=Way(By.UNIT, "no.service"), starter=Unknown("There is no unit no.service."))
    assert "cannot be started by no.service. There is no unit no.service." in blocking(made)


def test_a_server_of_a_container_is_started_by_that_again() -> None:
    machine = serving_machine()
    machine.cgroups = {100: f"/docker/{ID}"}
    first = plan(machine, launch=None)
    assert way(first) == f"container {ID[:12]}"
    alone = ContainerTold("chat", tuple(SGLANG.split()))
    assert way(plan(machine, launch=None, starter=alone)) == "container chat"
    labels = {"com.docker.compose.project": "llm", "com.docker.compose.service": "chat"}
    labels["com.docker.compose.project.config_files"] = "/srv/compose.yaml"
    assert way(plan(machine, launch=None, starter=replace(alone, labels=labels))) == "compose llm/chat"


def test_what_was_stopped_is_started_by_the_same_again() -> None:
    last = KnownLaunch("abc", BOOT, 100, 1000, started_by=Way(By.UNIT, "chat.service"))
    made = plan(idle_machine(), kind="start", launch=last)
    assert way(made) == "unit chat.service"


RUN = replace(SAME, container={"tool": "docker", "image": "img", "options": ["--name", "chat", "--gpus", "all"]})


def test_a_docker_run_is_a_docker_run_whatever_serves() -> None:
    assert way(plan(new=RUN)) == "run chat" and way(plan(new=RUN, started_by=Way(By.TRANSIENT))) == "run chat"
    there = ContainerTold("chat", ("x",), image="sha256:1", would_be="sha256:2")
    texts = [warning["text"] for warning in plan(new=RUN, starter=there).data["warnings"]]
    assert any("another image by now" in text for text in texts) and any("has not made" in text for text in texts)
    absent = plan(new=RUN, starter=ContainerTold("", ())).data["warnings"]
    assert ["is not on gpu1 yet" in warning["text"] for warning in absent] == [True]
    assert "Cannot connect" in blocking(plan(new=RUN, starter=Unknown("Cannot connect to the Docker daemon")))


def test_user_and_limits_of_the_server_are_kept_by_root() -> None:
    machine = serving_machine()
    machine.procs[100].uid = 1000
    facts = facts_of(machine, paths={})
    limits = {"Max open files": Limit("1024", "4096")}
    detail = replace(facts.details[100], gid=1001, limits=limits)
    facts = replace(facts, details={**facts.details, 100: detail})
    made = plan(facts=facts, launch=None)
    assert made.data["start"]["kept"] == {"uid": 1000, "gid": 1001, "limits": {"open files": "1024 4096"}}
    closed = plan(facts=facts, launch=None, closed=("/models/qwen-27b",))
    assert "/models/qwen-27b cannot be read on gpu1 by uid 1000" in blocking(closed)


def test_a_login_that_is_not_root_is_told_what_it_cannot_keep() -> None:
    machine = serving_machine()
    machine.procs[100].uid = 1001
    facts = facts_of(machine, uid=1000, paths={})
    limits = {"Max open files": Limit("524288", "524288"), "Max locked memory": Limit("unlimited", "unlimited")}
    detail = replace(facts.details[100], gid=1001, limits=limits, processors="0-15")
    init = replace(facts.details[1], processors="0-63")
    own = {"Max open files": Limit("1024", "1024"), "Max locked memory": Limit("64", "unlimited")}
    facts = replace(facts, details={**facts.details, 100: detail, 1: init}, login_limits=own)
    texts = " ".join(each["text"] for each in plan(facts=facts, launch=None, login="llm").data["warnings"])
    assert "runs as uid 1001; the new one will run as llm" in texts
    assert "may use 524288 open files; the login llm can give the new one 1024" in texts
    assert "locked memory" not in texts and "runs on processors 0-15 only" in texts
    pinned = replace(SAME, argv=("/usr/bin/numactl", "-N", "0", *SAME.argv))
    assert "processors" not in str(plan(facts=facts, launch=None, new=pinned).data["warnings"])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("sglang serve --nnodes 2 --node-rank 0", "--nnodes 2"),
        ("sglang serve --nnodes=1", ""),
        ("vllm serve m --distributed-executor-backend ray", "--distributed-executor-backend ray"),
        ("vllm serve m --distributed-executor-backend mp", ""),
        ("ray start --head", "ray start"),
        ("/opt/bin/ray start --head", "ray start"),
        ("x-ray started", ""),
    ],
)
def test_servers_on_several_machines_are_recognised(command: str, words: str) -> None:
    assert several_machines(command.split()) == words
    made = plan(new=replace(SAME, argv=tuple(command.split())))
    assert ("on several machines" in blocking(made)) == bool(words)


@pytest.mark.parametrize(
    ("engine", "flags", "cards"),
    [
        ("sglang", "--tp 4", 4),
        ("sglang", "--tp-size 2 --pp-size 2 --dp-size 2", 4),
        ("vllm", "--tensor-parallel-size 2 --data-parallel-size 4", 8),
        ("vllm", "-tp 2 -pp 2", 4),
        ("vllm", "", None),
        ("vllm", "--tensor-parallel-size $N", None),
        ("custom", "--tp 4", None),
    ],
)
def test_how_many_cards_the_flags_want(engine: str, flags: str, cards: int | None) -> None:
    assert cards_wanted(engine, ["x", *flags.split()]) == cards


def test_more_cards_than_there_are_stand_in_the_way() -> None:
    assert "needs 4 cards, and chat has 2" in blocking(plan(new=replace(SAME, argv=(*SAME.argv, "--pp-size", "2"))))


def test_secrets_are_not_lost_on_the_way() -> None:
    secrets = {"HF_TOKEN": 1, "API key": 2}
    assert not plan(secrets=secrets).data["blocked"]
    by_unit = {"started_by": Way(By.UNIT, "chat.service"), "starter": unit_told(), "new": SAME}
    both = plan(secrets=secrets, **by_unit)
    text = both.data["start"]["writes"]["text"]
    assert not both.data["blocked"] and "--config /etc/systemd/system/chat.service.d/relaunch.settings.yaml" in text
    made_up = by_unit | {"starter": unit_told(made_up=True)}
    assert "DynamicUser=yes" in blocking(plan(secrets=secrets, **made_up))
    unit = plan(secrets={"HF_TOKEN": 1}, **by_unit)
    assert not unit.data["blocked"] and "relaunch.secrets" in unit.data["start"]["writes"]["text"]
    assert plan(**by_unit).data["start"]["writes"] is None
    alone = {"started_by": Way(By.CONTAINER, "chat"), "starter": ContainerTold("chat", SAME.argv), "new": SAME}
    assert "What the container chat gets was fixed" in blocking(plan(secrets=secrets, **alone))
    compose = {"started_by": Way(By.COMPOSE, "llm/chat"), "starter": service_told(), "new": SAME}
    made = plan(secrets=secrets, **compose).data
    assert not made["blocked"] and made["start"]["gives"] == "/srv/llm/relaunch.chat.secrets"
    assert "The value of HF_TOKEN cannot be written" in blocking(
        plan(secrets=secrets, secrets_odd=("HF_TOKEN",), **compose)
    )
    run = replace(SAME, container={"tool": "docker", "image": "x", "options": ["-e", "A=b"]})
    assert not plan(new=run, secrets=secrets).data["blocked"]
    script = replace(run, argv=("start.sh",))
    assert "does not start SGLang itself" in blocking(plan(new=script, secrets=secrets))
    assert not plan(new=run, secrets={"HF_TOKEN": 1}).data["blocked"]


@pytest.mark.parametrize("text", ["unit", "unit a b.service", "nobody", "compose x", "container -x", "unit x.timer"])
def test_what_is_stored_of_a_way_is_checked(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Way.of(text)


def test_a_way_is_read_back() -> None:
    for text in ("", "wrapper", "transient", "unit chat.service", "compose llm/chat", "container chat", "run chat"):
        assert str(Way.of(text)) == text


def test_what_looks_after_an_adopted_server_still_does() -> None:
    machine = serving_machine()
    machine.cgroups = CHAT
    launched = KnownLaunch("abc", BOOT, 100, 1000, SAME.argv)
    assert way(plan(machine, launch=launched, starter=unit_told())) == "transient", "the login's unit is around our own"
    adopted = plan(machine, launch=replace(launched, adopted=True), starter=unit_told())
    assert way(adopted) == "unit chat.service" and adopted.manager is not None
    assert adopted.data["flags"] == [] and adopted.serving.is_launched


BY_SCRIPT = unit_told("ExecStart=/opt/chat.sh")


def test_what_a_units_script_has_started_already_it_starts_again() -> None:
    machine = serving_machine()
    machine.cgroups = CHAT
    same = plan(machine, launch=None, starter=BY_SCRIPT)
    assert way(same) == "unit chat.service" and not same.data["blocked"]
    assert same.data["start"]["as_served"] is True and same.data["start"]["writes"] is None
    for other in (
        replace(SAME, argv=(*SAME.argv, "--context-length", "4096")),
        replace(SAME, env={"NCCL_DEBUG": "WARN"}),
        replace(SAME, workdir="/srv"),
    ):
        assert "by a script" in blocking(plan(machine, launch=None, starter=BY_SCRIPT, new=other))
    changed = replace(BY_SCRIPT, shown={**BY_SCRIPT.shown, "NeedDaemonReload": "yes"})
    assert "daemon-reload" in blocking(plan(machine, launch=None, starter=changed))
    assert "as_served" not in plan(machine, launch=None, starter=unit_told()).data["start"]


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        ("file:/var/log/chat.log", "with StandardOutput=append:/var/log/chat.log or to the journal."),
        ("null", "with StandardOutput=journal."),
        ("socket", "with StandardOutput=journal."),
    ],
)
@pytest.mark.parametrize("told", [BY_SCRIPT, unit_told()], ids=["by a script", "itself"])
def test_a_unit_whose_output_cannot_be_followed_is_refused_in_the_plan(
    output: str, advice: str, told: UnitTold
) -> None:
    machine = serving_machine()
    machine.cgroups = CHAT
    silent = replace(told, shown={**told.shown, "StandardOutput": output})
    made = plan(machine, launch=None, starter=silent)
    assert f"It writes its output to {output} (StandardOutput)" in blocking(made) and advice in blocking(made)


@pytest.mark.parametrize("output", ["", "journal", "journal+console", "inherit", "append:/x", "truncate:/x"])
def test_a_unit_whose_output_can_be_followed_is_not(output: str) -> None:
    machine = serving_machine()
    machine.cgroups = CHAT
    told = unit_told()
    assert not blocking(plan(machine, starter=replace(told, shown={**told.shown, "StandardOutput": output})))


def test_so_does_a_container_whose_image_makes_the_flags() -> None:
    machine = serving_machine()
    machine.cgroups = {100: f"/docker/{ID}"}
    made = ContainerTold("chat", ("/entrypoint.sh", "--small"), entrypoint=("/entrypoint.sh",), is_up=True)
    same = plan(machine, launch=None, starter=made)
    assert way(same) == "container chat" and not same.data["blocked"] and same.data["start"]["as_served"] is True
    other = replace(SAME, argv=(*SAME.argv, "--context-length", "4096"))
    assert "fixed when it was made" in blocking(plan(machine, launch=None, starter=made, new=other))
