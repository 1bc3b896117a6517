"""The plan: what it stops, what stands in the way, and which facts an approval rests on."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deployments.engines.registry import ENGINES
from deployments.plan.binding import BINDS, differences, hash_of, what_changed, who_left
from deployments.plan.cards import Card
from deployments.plan.inputs import PlanInput, Recipe
from deployments.plan.manager_answers import Told
from deployments.plan.manager_warnings import must_confirm
from deployments.plan.plan import CannotPlan, Plan, make_plan, paths_needed
from deployments.plan.serving import KnownLaunch
from deployments.plan.sharing import Rules
from deployments.plan.ways import By, Way
from deployments.traffic.hook import Hook, How
from hosts.probe.frames import Unknown
from tests.deployments.machine import BOOT, CARDS, OTHER_BOOT, SGLANG, Machine, Proc, idle_machine, serving_machine

ARGV = tuple(SGLANG.split())
NEW = Recipe("qwen r2", (*ARGV, "--context-length", "131072"), "the new command", 30000, "/srv")
PATHS = tuple(paths_needed(ENGINES["sglang"], NEW))
LAUNCH = KnownLaunch("abc", BOOT, 100, 1000)


def asked(machine: Machine, **values: Any) -> PlanInput:
    usual: dict[str, Any] = {
        "kind": "restart",
        "deployment": "chat",
        "host": "gpu1",
        "engine": ENGINES["sglang"],
        "port": 30000,
        "cards": tuple(Card(uuid, f"GPU {n}", 4) for n, uuid in enumerate(CARDS)),
        "rules": Rules(),
        "launch": LAUNCH,
        "new": NEW,
        "proven": None,
        "previous": "qwen r1",
        "way_back": True,
        "facts": machine.facts(PATHS),
        "node_facts": None,
    }
    return PlanInput(**(usual | values))


def plan(machine: Machine, **values: Any) -> Plan:
    return make_plan(asked(machine, **values))


def blocking(made: Plan) -> list[str]:
    return [warning["text"] for warning in made.data["warnings"] if warning["blocks"]]


def test_where_not_all_could_be_read_nobody_is_said_to_hold_no_card() -> None:
    machine = serving_machine()
    machine.partial = True
    assert not any(row["no_card"] for row in plan(machine).data["stops"])


def test_where_nobody_can_say_who_holds_the_cards_the_plan_says_what_that_means_and_what_to_do() -> None:
    machine = idle_machine()
    machine.partial = True
    (found,) = plan(machine, kind="start", launch=None).data["warnings"]
    assert found["text"].startswith("Who else holds the cards is not known: ") and not found["blocks"]
    assert "on a card that is shared it does not" in found["why"]
    assert found["todo"].startswith("Ask who else works on them.")


def test_a_clean_restart() -> None:
    made = plan(serving_machine())
    data = made.data
    assert not data["blocked"] and not data["warnings"]
    assert [row["pid"] for row in data["stops"]] == [100, 101, 102, 103]
    worker = data["stops"][1]
    assert (worker["user"], worker["gpus"], worker["memory_mib"]) == ("root", ["GPU 0"], 39_000)
    assert worker["since"] == "2026-01-02T01:40:55+00:00", "started 10 s after the boot, 4990 s ago"
    assert data["untouched"] == []
    assert [row["no_card"] for row in data["stops"]] == [True, False, False, True]
    assert data["flags"] == [
        {"flag": "directory", "running": "not known", "new": "/srv", "proven": None},
        {"flag": "--context-length", "running": None, "new": "131072", "proven": None},
    ]
    assert data["launch"] == {"command": "the new command", "revision": "qwen r2", "given": []}
    assert data["way_back"] == {
        "possible": True,
        "text": "If it fails, qwen r1 is started again, with all checks.",
    }
    assert made.hash == hash_of(data["binding"])


def test_where_the_same_revision_is_launched_the_way_back_is_to_launch_it_once_more() -> None:
    same = plan(serving_machine(), previous=NEW.name).data["way_back"]["text"]
    assert same == "If it fails, the same revision (qwen r2) is launched once more, with all checks."


def test_how_many_requests_run_is_shown_but_not_bound_to() -> None:
    made = plan(serving_machine())
    before = made.hash
    made.tell_requests(3)
    assert (made.data["requests"], made.data["requests_unknown"]) == (3, "")
    made.tell_requests(Unknown("It does not say."))
    assert (made.data["requests"], made.data["requests_unknown"]) == (None, "It does not say.")
    assert made.hash == before == hash_of(made.data["binding"])


def test_a_stop_launches_nothing_and_a_start_stops_nothing() -> None:
    stop = plan(serving_machine(), kind="stop", new=None).data
    assert stop["launch"] is None and len(stop["stops"]) == 4 and not stop["blocked"]
    start = plan(idle_machine(), kind="start", launch=None).data
    assert start["stops"] == [] and not start["blocked"]


def test_strangers_are_named_and_left_alone() -> None:
    stranger = Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0,), memory=1_500)
    made = plan(serving_machine().add(stranger))
    (row,) = made.data["untouched"]
    assert (row["pid"], row["memory_mib"], row["since"]) == (9, 1_500, "2026-01-02T01:40:45+00:00")
    assert made.data["warnings"][0]["text"] == "Somebody else holds GPU 0: python (pid 9, uid 1000)."
    assert 9 not in [row["pid"] for row in made.data["stops"]]
    assert "will not touch them" in made.data["warnings"][0]["why"]
    assert (
        "chat is stopped all the same. If they are still there before the launch, chat stays down"
        in made.data["warnings"][0]["why"]
    )
    assert "measures nothing more until somebody answers" in made.data["warnings"][0]["why"]
    assert not made.data["blocked"], "the job waits before the launch, with a gate"


def test_before_a_start_beside_strangers_it_is_said_that_the_service_stays_down() -> None:
    machine = idle_machine().add(Proc(9, 90, "trainer", "python train.py", uid=1000, cards=(0,)))
    (found,) = plan(machine, kind="start", launch=None).data["warnings"]
    assert "chat stays down" in found["why"] and "is stopped" not in found["why"]


def test_a_containers_strangers_are_asked_from_its_node() -> None:
    node = idle_machine().add(
        Proc(5101, 1001, cards=(0,), pids=(5101, 101)), Proc(5900, 77, "other-ct", cards=(1,), pids=(5900, 4))
    )
    made = plan(serving_machine(), node_facts=node.facts())
    assert [row["pid"] for row in made.data["untouched"]] == [5900]


@pytest.mark.parametrize(
    ("change", "values", "words"),
    [
        (lambda machine: machine.cards.update({CARDS[0]: "[Unknown Error]"}), {}, "GPU 0 cannot be measured"),
        (lambda machine: machine.cards.pop(CARDS[1]), {}, "GPU 1 is not among the cards"),
        (lambda machine: machine.missing_paths.add("/models/qwen-27b"), {}, "The model /models/qwen-27b is not there"),
        (lambda machine: machine.missing_paths.add("/srv"), {}, "The working directory /srv"),
        (lambda machine: machine.missing_paths.add(ARGV[0]), {}, "The program /opt/sglang/bin/python"),
        (lambda machine: setattr(machine, "free_mib", 63), {}, "Only 63 MiB are free"),
        (lambda machine: machine.broken.update({"paths": None}), {}, ""),
        (lambda machine: None, {"kind": "start"}, "already serves (pid 100)"),
    ],
)
def test_what_blocks(change: Callable[[Machine], None], values: dict[str, Any], words: str) -> None:
    machine = serving_machine()
    change(machine)
    made = plan(machine, **values)
    assert made.data["blocked"]
    assert words in " ".join(blocking(made))
    assert all(warning["todo"] for warning in made.data["warnings"] if warning["blocks"])


def test_another_program_on_the_port_blocks_a_launch_but_not_a_stop() -> None:
    machine = idle_machine().add(Proc(7, 70, "nginx", "nginx -g daemon", port=30000))
    made = plan(machine, launch=None)
    assert blocking(made) == ["Port 30000 belongs to another process: pid 7 (nginx -g daemon)."]
    assert made.data["stops"] == []
    assert not plan(machine, launch=None, kind="stop", new=None).data["blocked"]


@pytest.mark.parametrize("section", ["host", "procs"])
def test_there_is_no_plan_without_knowing_who_serves(section: str) -> None:
    machine = serving_machine()
    machine.broken[section] = None
    with pytest.raises(CannotPlan, match="could not be seen"):
        plan(machine)


def test_holders_that_cannot_be_seen_are_said_and_do_not_block() -> None:
    machine = serving_machine()
    machine.broken["fds"] = None
    made = plan(machine)
    assert not made.data["blocked"]
    assert "not known" in made.data["warnings"][0]["text"]
    assert made.data["binding"]["strangers"] == "unknown"


@pytest.mark.parametrize(
    ("values", "possible", "words"),
    [
        ({"previous": None}, False, "not started by Relaunch"),
        ({"way_back": False}, True, "asks whether to start qwen r1 again"),
    ],
)
def test_the_way_back(values: dict[str, Any], possible: bool, words: str) -> None:
    told = plan(serving_machine(), **values).data["way_back"]
    assert told["possible"] is possible and words in told["text"]


def test_a_way_back_is_told_only_where_there_could_be_one() -> None:
    assert plan(serving_machine(), kind="stop", new=None).data["way_back"]["text"] == ""
    assert "nothing to go back to" in plan(idle_machine()).data["way_back"]["text"]


def test_where_nothing_serves_the_flags_are_compared_with_the_last_start() -> None:
    made = plan(idle_machine(), launch=replace(LAUNCH, argv=ARGV), new=replace(NEW, workdir=""), kind="start")
    assert made.data["flags_before"] == "Last start"
    assert made.data["flags"] == [
        {"flag": "--context-length", "running": None, "new": "131072", "proven": None},
    ]
    first = plan(idle_machine(), launch=None, kind="start")
    assert (first.data["flags_before"], first.data["flags"]) == ("", [])
    assert plan(serving_machine()).data["flags_before"] == "Running"


def _set(name: str, value: Any) -> Callable[[Machine], None]:
    return lambda machine: setattr(machine, name, value)


def _proc(pid: int, **values: Any) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        machine.procs[pid] = replace(machine.procs[pid], **values)

    return change


DOES_NOT_MATTER: list[tuple[str, Callable[[Machine], None], dict[str, Any]]] = [
    ("a few MiB more", lambda machine: machine.cards.update({CARDS[0]: 40_123}), {}),
    ("a helper came", lambda machine: machine.add(Proc(110, 1100, parent=100)) and None, {}),
    ("a helper went", lambda machine: machine.procs.pop(103) and None, {}),
    ("somebody on another card", lambda machine: machine.cards.update({"GPU-cccc": 9}), {}),
    ("disk space", _set("free_mib", 40_000), {}),
    ("the baseline", lambda machine: None, {"cards": tuple(Card(uuid, "GPU", 9) for uuid in CARDS)}),
    ("the way back", lambda machine: None, {"way_back": False}),
]
MATTERS: list[tuple[str, Callable[[Machine], None], dict[str, Any]]] = [
    ("what is to be done", lambda machine: None, {"kind": "stop"}),
    ("the secrets that the server is given", lambda machine: None, {"secrets": {"HF_TOKEN": 1}}),
    ("the command to launch", lambda machine: None, {"new": replace(NEW, command="another command")}),
    ("the cards", lambda machine: None, {"cards": (Card(CARDS[0], "GPU 0", 4),)}),
    ("the host has booted meanwhile", _set("boot", OTHER_BOOT), {"launch": replace(LAUNCH, boot_id=OTHER_BOOT)}),
    ("the server's processes are others than those of the plan", _proc(101, start=5001), {}),
    ("the server's processes are others than those of the plan", _proc(103, cards=(0,)), {}),
    (
        "others hold the cards than those of the plan (python (pid 9, root, on GPU 1) has come)",
        lambda machine: machine.add(Proc(9, 90, cards=(1,))) and None,
        {},
    ),
    (
        "the co-tenants of the cards are others than those of the plan (python (pid 9, root, on GPU 1) has come)",
        lambda machine: machine.add(Proc(9, 90, "Xorg", cards=(1,))) and None,
        {"rules": Rules(programs=("root:Xorg",))},
    ),
    ("what stands in the way", lambda machine: machine.missing_paths.add("/srv"), {}),
    ("the profile has a newer revision than the one that is launched", lambda machine: None, {"newer": "qwen r3"}),
]


def _changed(change: Callable[[Machine], None], values: dict[str, Any]) -> tuple[Plan, Plan]:
    machine = serving_machine()
    change(machine)
    return plan(serving_machine()), plan(machine, **values)


@pytest.mark.parametrize(("name", "change", "values"), DOES_NOT_MATTER, ids=[case[0] for case in DOES_NOT_MATTER])
def test_an_approval_outlives_what_does_not_matter(
    name: str, change: Callable[[Machine], None], values: dict[str, Any]
) -> None:
    before, after = _changed(change, values)
    assert before.hash == after.hash, what_changed(before.data, after.data)


@pytest.mark.parametrize(("words", "change", "values"), MATTERS)
def test_an_approval_does_not_outlive_what_matters(
    words: str, change: Callable[[Machine], None], values: dict[str, Any]
) -> None:
    before, after = _changed(change, values)
    assert before.hash != after.hash
    assert words in what_changed(before.data, after.data)
    rows = differences(before.data, after.data)
    assert rows and all(before != now and before and now for _, before, now in rows), rows


def test_every_fact_that_binds_stands_in_the_one_table() -> None:
    hooks = (Hook(How.COMMAND, command="out"), Hook(How.REQUEST, method="POST", url="http://router/in"))
    made = plan(serving_machine(), newer="qwen r3", secrets={"HF_TOKEN": 1}, hooks=hooks)
    assert made.data["binding"].keys() == BINDS.keys() - {"replaces"}, "replaces: of a replacement only"
    (row,) = differences(plan(serving_machine()).data, plan(serving_machine(), hooks=hooks).data)
    assert row == ["Its router", "not told", "out, POST http://router/in"]
    assert differences(made.data, made.data) == [] and differences({}, made.data) == []


def test_who_has_gone_is_named_too() -> None:
    before, after = (
        plan(serving_machine().add(Proc(9, 90, "train", "train.sh", uid=7, cards=(0,)))),
        plan(serving_machine()),
    )
    (changed,) = what_changed(before.data, after.data)
    assert changed.endswith("(train.sh (pid 9, uid 7, on GPU 0) has gone)")


@pytest.mark.parametrize(("mode", "said"), [("Enabled", True), ("Disabled", False), ("[N/A]", False)])
def test_a_card_that_is_split_is_told(mode: str, said: bool) -> None:
    machine = serving_machine()
    machine.columns = {"mig.mode.current": mode}
    words = [warning["text"] for warning in plan(machine).data["warnings"]]
    assert ("GPU 0 and GPU 1 are split into parts (MIG)." in words) == said
    assert plan(machine, kind="stop", new=None).data["warnings"] == []


def beside(*strangers: Proc) -> Plan:
    return plan(serving_machine().add(*strangers))


ONE, TWO = Proc(9, 90, "sleep", "sleep 1000", cards=(0,)), Proc(12, 120, "trainer", cards=(1,))


def test_of_the_foreign_holders_of_a_plan_it_is_known_who_left() -> None:
    both = beside(ONE, TWO)
    assert [row["pid"] for row in who_left(both.hash, both.data, beside(TWO).data) or ()] == [9]
    assert [row["pid"] for row in who_left(both.hash, both.data, beside().data) or ()] == [9, 12]


@pytest.mark.parametrize(
    "now",
    [
        beside(TWO),
        beside(ONE, TWO),
        beside(replace(ONE, start=91)),
        plan(serving_machine(), new=replace(NEW, command="another command")),
        plan(serving_machine().add(Proc(103, 5003, parent=100, cards=(1,)))),
    ],
    ids=["another instead", "one more", "its pid is another's", "another command too", "another server too"],
)
def test_anything_else_that_changed_is_no_mere_leaving(now: Plan) -> None:
    then = beside(ONE)
    assert who_left(then.hash, then.data, now.data) is None


def test_from_holders_that_could_not_be_seen_nobody_left() -> None:
    hidden = serving_machine()
    hidden.partial = True
    unseen, seen = plan(hidden), beside(ONE)
    assert unseen.data["binding"]["strangers"] == "unknown"
    assert who_left(unseen.hash, unseen.data, beside().data) is None
    assert who_left(seen.hash, seen.data, unseen.data) is None


def test_the_plan_is_the_same_however_the_facts_are_ordered() -> None:
    machine = serving_machine()
    machine.procs = dict(reversed(machine.procs.items()))
    assert plan(machine).hash == plan(serving_machine()).hash


def test_the_paths_that_a_plan_asks_about() -> None:
    assert PATHS == (".", "/dev/shm", "/models/qwen-27b", "/opt/sglang/bin/python", "/srv")
    assert paths_needed(ENGINES["sglang"], None) == ["."]
    hub = Recipe("r", ("python", "--model-path", "Qwen/Qwen3-8B"), "c", 1)
    assert paths_needed(ENGINES["sglang"], hub) == [".", "/dev/shm"]


@pytest.mark.parametrize(
    ("value", "blocked"),
    [
        ("0", ""),
        ("0,1", ""),
        (CARDS[1], ""),
        ("1,2", "cards that are not this deployment's"),
        ("2", "cards that are not this deployment's"),
        ("", "no card that is known here"),
        ("GPU-", "no card that is known here"),
        ("MIG-6a4ee3e5-3b3c-5d2c-8c50-0d9a8f6c7b21", "no card that is known here"),
    ],
)
def test_a_recipe_may_not_use_cards_that_nobody_looked_at(value: str, blocked: str) -> None:
    machine = serving_machine()
    machine.cards["GPU-of-somebody-else"] = 4
    made = plan(machine, new=replace(NEW, env={"CUDA_VISIBLE_DEVICES": value}))
    assert made.data["blocked"] is bool(blocked)
    assert all(f"names {blocked}" in text for text in blocking(made))


@pytest.mark.parametrize(
    ("value", "used", "blocked"),
    [
        ("0,1,2", {*CARDS}, False),
        ("0,1,2", {CARDS[0]}, True),
        ("0,1,2", {*CARDS, "GPU-of-somebody-else"}, True),
        ("0,1,2", set(), True),
        ("1,2", {*CARDS}, True),
    ],
)
def test_who_was_adopted_may_see_cards_that_it_does_not_use(value: str, used: set[str], blocked: bool) -> None:
    machine = serving_machine()
    machine.cards["GPU-of-somebody-else"] = 4
    new = replace(NEW, env={"CUDA_VISIBLE_DEVICES": value})
    assert plan(machine, new=new, used_alone=frozenset(used)).data["blocked"] is blocked


def test_a_changed_variable_is_shown() -> None:
    sent = replace(LAUNCH, argv=ARGV, env={"NCCL_DEBUG": "INFO"})
    rows = plan(serving_machine(), launch=sent, new=replace(NEW, argv=ARGV, workdir="")).data["flags"]
    assert rows == [{"flag": "NCCL_DEBUG=", "running": "INFO", "new": None, "proven": None}]


def test_the_variables_of_a_server_that_we_did_not_start_are_not_known() -> None:
    rows = plan(serving_machine(), new=replace(NEW, argv=ARGV, workdir="", env={"A": "1"})).data["flags"]
    assert rows == [{"flag": "A=", "running": "not known", "new": "1", "proven": None}]


# --- What looks after the server


def managed(cgroup: str, *, parent: Proc | None = None) -> Machine:
    machine = serving_machine()
    machine.cgroups = {100: cgroup}
    if parent is not None:
        machine.add(parent)
        machine.procs[100].parent = parent.pid
    return machine


def test_a_units_server_is_stopped_through_its_unit() -> None:
    made = plan(managed("/system.slice/chat.service"), launch=None, started_by=Way(By.WRAPPER))
    assert not made.data["blocked"]
    assert "chat.service, which is asked to stop it" in made.data["warnings"][0]["text"]
    assert made.manager is not None
    assert made.manager.stop_argv(seconds=20, sudo=True) == ["sudo", "-n", "systemctl", "stop", "chat.service"]
    assert "systemd unit chat.service" in str(made.data["sections"][0]["rows"])
    assert made.hash != plan(serving_machine(), launch=None).hash, "the approval is bound to it"


def test_a_container_is_stopped_by_its_engine_within_the_deployments_time() -> None:
    made = plan(managed(f"/system.slice/docker-{'ab' * 32}.scope"), launch=None, kind="stop", new=None)
    assert made.manager is not None and not made.data["warnings"]
    assert made.manager.stop_argv(seconds=20, sudo=False) == ["docker", "stop", "-t", "20", "abababababab"]


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (managed("/slurm/uid_0/job_7/step_0"), "is a job of Slurm"),
        (managed("/kubepods/besteffort/pod1/x"), "is a job of Kubernetes"),
    ],
)
def test_a_schedulers_job_is_never_stopped(machine: Machine, sentence: str) -> None:
    assert any(sentence in text for text in blocking(plan(machine, launch=None)))
    assert blocking(plan(machine, launch=None, kind="start"))[0].startswith("chat already serves")


def test_what_cannot_be_asked_is_told_and_confirmed_before_the_stop() -> None:
    made = plan(managed("/system.slice/supervisor.service", parent=Proc(60, 60, "runsv")), launch=None)
    assert not made.data["blocked"] and "supervisor runit looks after" in made.data["warnings"][0]["text"]
    assert must_confirm(made.manager, made.beside)


@pytest.mark.parametrize(("unit", "said"), [(90.0, "90 s"), (math.inf, "for ever"), (30.0, ""), (None, "")])
def test_a_unit_that_waits_longer_than_the_job_is_told_before_anything_is_stopped(
    unit: float | None, said: str
) -> None:
    machine = serving_machine()
    machine.cgroups = {100: "/system.slice/chat.service"}
    made = plan(machine, launch=None, told=Told(stop_seconds=unit), stop_seconds=30)
    words = (
        f"The systemd unit chat.service may wait {said} for its server to end (TimeoutStopSec); this job waits 30 s."
    )
    assert (words in [warning["text"] for warning in made.data["warnings"]]) == bool(said)
    assert ("TimeoutStopSec" in str(made.data)) == bool(said) and not made.data["blocked"]


def test_a_manager_that_would_not_answer_blocks() -> None:
    told = Told(trouble="permission denied (exit status 1)")
    machine = managed(f"/docker/{'ab' * 32}")
    assert any("permission denied" in text for text in blocking(plan(machine, launch=None, told=told)))
    assert not plan(machine, launch=None).data["blocked"]


def test_others_in_the_unit_are_named_and_the_approval_is_bound_to_them() -> None:
    machine = managed("/system.slice/chat.service").add(Proc(60, 60, "rsync"))
    alone, more = plan(machine, launch=None), plan(machine, launch=None, told=Told(members=(60, 100, 101)))
    assert "rsync (pid 60)" in more.data["warnings"][0]["text"] and must_confirm(more.manager, more.beside)
    assert not must_confirm(alone.manager, alone.beside)
    assert more.hash != alone.hash


def boot_warnings(machine: Machine, at_boot: bool) -> list[dict[str, Any]]:
    beside = plan(machine, launch=None, told=Told(at_boot=at_boot), started_by=Way(By.WRAPPER))
    found: list[dict[str, Any]] = beside.data["warnings"]
    return found


def test_what_happens_at_the_next_boot_is_said_before_the_approval() -> None:
    machine = managed("/system.slice/chat.service")
    always, never = (boot_warnings(machine, state) for state in (True, False))
    assert "starts its own server again" in str(always) and "does not start its own server at boot" in str(never)
    stop = plan(machine, launch=None, kind="stop", new=None, told=Told(at_boot=True))
    assert "starts its server again when" in stop.data["warnings"][0]["text"]
    static = plan(machine, launch=None, kind="stop", new=None, told=Told(restart="no"))
    assert "may start its server again when" in static.data["warnings"][0]["text"], "what is not known is said"
    assert "chat.socket can start" in str(plan(machine, launch=None, told=Told(triggers=("chat.socket",))).data)


def test_the_way_back_to_a_managers_server_is_its_own_start() -> None:
    made = plan(managed("/system.slice/chat.service"), launch=None, previous=None)
    assert made.data["way_back"]["text"].endswith("run: systemctl start chat.service")


def test_a_node_of_a_scheduler_warns_before_any_launch() -> None:
    machine = serving_machine().add(Proc(60, 60, "slurmd"))
    assert any("is a node of Slurm" in warning["text"] for warning in plan(machine).data["warnings"])
    assert "is a node of" not in str(plan(machine, kind="stop", new=None).data["warnings"])
    on_the_node = plan(serving_machine(), node_facts=machine.facts())
    assert any("is a node of Slurm" in warning["text"] for warning in on_the_node.data["warnings"])


def test_the_unit_around_our_own_launch_is_that_of_the_login() -> None:
    assert plan(managed("/system.slice/relaunch.service")).manager is None


@pytest.mark.parametrize("known", [replace(LAUNCH, boot_id=OTHER_BOOT), replace(LAUNCH, start_time=999)])
def test_a_launch_that_has_ended_makes_no_other_process_of_its_pid_ours(known: KnownLaunch) -> None:
    machine = serving_machine().add(Proc(60, 600, "bash"))
    machine.procs[100].parent = 60
    made = plan(machine, launch=replace(known, argv=(*ARGV, "--old-flag", "9")))
    assert made.manager is not None and "bash (pid 60)" in str(made.manager)
    assert "--old-flag" not in [row["flag"] for row in made.data["flags"]]


def test_a_shell_around_an_adopted_server_is_a_warning_and_around_ours_is_our_own() -> None:
    machine = managed("/user.slice/user-0.slice/session-3.scope", parent=Proc(60, 60, "bash"))
    adopted = plan(machine, launch=None)
    assert not adopted.data["blocked"] and "bash (pid 60) waits for the server" in adopted.data["warnings"][0]["text"]
    assert plan(machine).manager is None


# --- Cards


def test_a_deployment_without_cards_is_only_for_a_machine_without_cards() -> None:
    made = plan(idle_machine(), kind="start", cards=())
    assert blocking(made) == ["chat has no card, but gpu1 has 2."]
    assert not plan(idle_machine(), kind="stop", new=None, cards=()).data["blocked"]
    bare = Machine()
    bare.broken["gpus"] = bare.broken["memory"] = ("nvidia-smi: not found", 127)
    assert not plan(bare, kind="start", cards=(), launch=None).data["blocked"]
    broken = idle_machine()
    broken.broken["gpus"] = broken.broken["memory"] = ("", 9)
    assert blocking(plan(broken, kind="start", cards=()))[0] == "chat has no card, but gpu1 has 2."


def test_cards_named_in_the_command_are_looked_at_too() -> None:
    machine = serving_machine()
    machine.cards["GPU-of-somebody-else"] = 4
    argv = ("/usr/bin/env", "CUDA_VISIBLE_DEVICES=2", *ARGV)
    assert "names cards that are not" in blocking(plan(machine, new=replace(NEW, argv=argv)))[0]


# --- Whose processes


def test_a_marker_in_another_users_process_makes_it_nobodys() -> None:
    machine = serving_machine().add(Proc(900, 9000, "innocent", uid=1000, marker="abc"))
    assert 900 not in [row["pid"] for row in plan(machine).data["stops"]]


def test_a_process_that_only_carries_the_marker_is_one_that_the_approver_has_seen() -> None:
    before = plan(serving_machine())
    after = plan(serving_machine().add(Proc(900, 9000, "left over", marker="abc")))
    assert 900 in [row["pid"] for row in after.data["stops"]]
    assert before.hash != after.hash


def test_another_deployments_server_on_the_cards_is_named_and_what_to_do_about_it() -> None:
    launch = "0215ffb0-8aa0-4d3c-9f53-1b2a3c4d5e6f"
    machine = idle_machine().add(Proc(9, 90, "python", "python serve.py", cards=(0,), log=launch))
    (warning,) = plan(machine, kind="start", launches={launch: "embedder"}).data["warnings"]
    assert "python (pid 9, root, of deployment embedder)" in warning["text"]
    assert warning["todo"] == "Stop embedder first, or let chat share its cards with it under Edit."


def test_the_server_of_another_deployment_on_the_same_port_is_never_this_ones_to_stop() -> None:
    launch = "0215ffb0-8aa0-4d3c-9f53-1b2a3c4d5e6f"
    machine = serving_machine()
    assert plan(machine, launch=None).data["stops"], "without a launch whoever listens there is adopted"
    machine.procs[100] = replace(machine.procs[100], log=launch)
    made = plan(machine, launch=None, launches={launch: "embedder"})
    assert made.data["stops"] == [] and "embedder" in str(made.data["warnings"])


DOCKER = {"tool": "docker", "image": "img:1", "options": ["--network", "host"]}


def test_a_revision_in_a_container_is_shown_with_what_it_is_made_of() -> None:
    made = plan(serving_machine(), new=replace(NEW, container=DOCKER))
    assert blocking(made) == [] and made.data["start"]["way"] == "run relaunch-chat"
    assert {"flag": "image", "running": "not known", "new": "img:1", "proven": None} in made.data["flags"]
    assert paths_needed(ENGINES["sglang"], replace(NEW, container=DOCKER)) == [".", "/srv"], "the model is inside"
    assert paths_needed(ENGINES["sglang"], replace(NEW, argv=(), container=DOCKER)) == [".", "/srv"]


def test_where_uv_may_change_the_environment_it_is_said() -> None:
    made = plan(serving_machine(), new=replace(NEW, argv=("uv", "run", "python", *NEW.argv[1:])))
    assert "qwen r2 is started by uv run without --frozen." in [warning["text"] for warning in made.data["warnings"]]
    frozen = plan(serving_machine(), new=replace(NEW, argv=("uv", "run", "--frozen", "python", *NEW.argv[1:])))
    assert not any("uv run" in warning["text"] for warning in frozen.data["warnings"]) and not blocking(made)


def test_an_existing_revision_that_starts_something_else_warns_and_is_never_approved_by_itself() -> None:
    new = Recipe("qwen r2", ("rm", "-rf", "/"), "rm -rf /", 30000)
    found = plan(serving_machine(), new=new, facts=serving_machine().facts(["/"])).data["warnings"]
    (warning,) = [each for each in found if "does not start SGLang" in each["text"]]
    assert warning["asks"] and not warning["blocks"] and "Any other command" in warning["todo"]
    assert not any("does not start" in each["text"] for each in plan(serving_machine()).data["warnings"])
