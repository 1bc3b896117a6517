"""Is it free? What may be on the cards and on the port, and what of it counts."""

from __future__ import annotations

from functools import partial

from deployments.decisions.verify import HEADLESS_CEILING_MIB
from hosts.models import Gpu
from lab.gpus import state
from lab.host import wait_until
from tests.verdicts.scene import Scene
from tests.verdicts.situation import FREE, LOCAL, NOT_FREE, PCT, SSH, UNMEASURED, Outcome, Table

AT_ONCE = {"memory_seconds": 0, "stuck_seconds": 0, "port_seconds": 0}
TABLE = Table(policy=AT_ONCE)
row = TABLE.row
MIG, UNIFIED, DESKTOP = 3, 4, 5


# --- Nobody, and what is left of a server


@row("nobody is there", FREE, sample=True)
def idle(s: Scene) -> Outcome:
    return s.look()


@row("two cards, nobody is there", FREE, slots=(0, 2))
def idle_two(s: Scene) -> Outcome:
    return s.look()


@row("the recorded server is gone", FREE)
def gone(s: Scene) -> Outcome:
    server = s.serve()
    s.kill(server)
    return s.look([server])


@row("the recorded server still runs", NOT_FREE, "still live")
def still_there(s: Scene) -> Outcome:
    return s.look([s.serve()])


@row("a worker without a parent, renamed, holds the card; the port is free", NOT_FREE, "still live", sample=True)
def orphan(s: Scene) -> Outcome:
    launch = s.launch()
    found = s.tree(launch, {"comm": "VLLM::EngineCor", "hold": (s.cards[0].uuid, 8000)}, hold=None)
    s.kill(found[0])
    return s.look(found)


@row("a worker that is not in the record holds the card", NOT_FREE, "VLLM::EngineCor|still holds")
def unrecorded_worker(s: Scene) -> Outcome:
    s.stranger(0, 8000, comm="VLLM::EngineCor")
    return s.look()


@row("a recorded worker holds nothing any more, but lives", NOT_FREE, "still live")
def idle_worker(s: Scene) -> Outcome:
    return s.look([s.serve(hold=None, port=0)])


@row("a recorded process waits to be reaped, and holds nothing", FREE)
def dead_zombie(s: Scene) -> Outcome:
    s.detach("sleep 0.01 & exec sleep 86399")
    wait_until(lambda: [p for p in s.machine.processes() if p.state == "Z"], timeout=10, what="a zombie")
    return s.look([process for process in s.machine.processes() if process.state == "Z"])


@row("the recorded server's first thread has ended, another holds the card", NOT_FREE, "still live")
def zombie_leader(s: Scene) -> Outcome:
    return s.look([odd(s, "zombie-leader", 5000)])


@row("a recorded process sits in the driver, in state D", NOT_FREE, "still live")
def in_state_d(s: Scene) -> Outcome:
    return s.look([odd(s, "vfork", 5000)])


@row("a recorded process does not even die of SIGKILL", NOT_FREE, "still live")
def stuck(s: Scene) -> Outcome:
    s.faults._stuck(s.machine, s.cards[0], 4000, 3600)
    found = s.process("gpu-odd stuck")
    s.detach(f"kill -9 {found.own_pid}")
    return s.look([found])


@row("the recorded number belongs to another process now", FREE)
def pid_again(s: Scene) -> Outcome:
    server = s.serve()
    s.instead_of(server)
    return s.look([server])


@row("the record is of the boot before; the same numbers run again", FREE, harmless="member")
def other_boot(s: Scene) -> Outcome:
    server = s.serve(hold=None, port=0)
    return s.look([server], boot_id="11111111-2222-3333-4444-555555555555")


# --- Memory without an owner


@row("memory without an owner, far above the limit", NOT_FREE, "still holds 20,000 MiB")
def leak(s: Scene) -> Outcome:
    s.leak(0, 20000)
    return s.look()


@row("memory without an owner, on the second of two cards", NOT_FREE, "still holds 9,000 MiB", slots=(0, 2))
def leak_on_second(s: Scene) -> Outcome:
    s.leak(2, 9000)
    return s.look()


@row("one MiB above the limit", NOT_FREE, "still holds")
def just_above(s: Scene) -> Outcome:
    s.leak(0, HEADLESS_CEILING_MIB + 1)
    return s.look()


@row("exactly at the limit", FREE, harmless="MiB on slot")
def at_the_limit(s: Scene) -> Outcome:
    s.leak(0, HEADLESS_CEILING_MIB)
    return s.look()


@row("memory without an owner on a card of others", FREE)
def leak_elsewhere(s: Scene) -> Outcome:
    s.leak(2, 20000)
    return s.look()


@row("memory without an owner, then the card was reset", FREE)
def leak_cleared(s: Scene) -> Outcome:
    s.leak(0, 20000)
    s.faults.gpu_clear(s.place.node)
    return s.look()


@row("the baseline was never learnt, and nobody is there", FREE)
def no_baseline(s: Scene) -> Outcome:
    forget_baselines(s)
    return s.look()


@row("the baseline was never learnt, and memory is left", NOT_FREE, "still holds")
def no_baseline_leak(s: Scene) -> Outcome:
    forget_baselines(s)
    s.leak(0, 700)
    return s.look()


@row("the baseline is 300 MiB above zero, and that much is in use", FREE, harmless="MiB on slot")
def high_baseline(s: Scene) -> Outcome:
    Gpu.objects.filter(host=s.place.host, uuid=s.cards[0].uuid).update(baseline_mib=300)
    s.leak(0, 320)
    return s.look()


@row("the driver frees the memory 0.8 s after the death", FREE, policy={"memory_seconds": 30, "stuck_seconds": 30})
def late_release(s: Scene) -> Outcome:
    server = late(s, 0.8)
    return s.look([server])


@row(
    "the driver has not freed the memory when the limit has passed",
    NOT_FREE,
    "still holds",
    policy={"stuck_seconds": 1},
)
def too_late(s: Scene) -> Outcome:
    server = late(s, 60)
    return s.look([server])


# --- Others on the card


@row("a stranger holds the card", NOT_FREE, "holds GPU", sample=True)
def stranger(s: Scene) -> Outcome:
    s.stranger(0, 3000)
    return s.look()


@row("a stranger holds so little that the memory is within the limit", NOT_FREE, "holds GPU")
def small_stranger(s: Scene) -> Outcome:
    s.stranger(0, 10)
    return s.look()


@row("a stranger has the card's file open, and no memory", NOT_FREE, "holds GPU")
def open_file(s: Scene) -> Outcome:
    s.detach(f"exec 9< /dev/nvidia{s.cards[0].minor}; exec sleep 86399")
    wait_until(s.in_use, timeout=10, what="an open device file")
    return s.look()


@row("a stranger holds a card of others", FREE)
def stranger_elsewhere(s: Scene) -> Outcome:
    s.stranger(2, 3000)
    return s.look()


@row("a stranger holds one of two cards", NOT_FREE, "holds GPU", slots=(0, 2))
def stranger_on_second(s: Scene) -> Outcome:
    s.stranger(2, 3000)
    return s.look()


@row("the stranger calls itself like the server", NOT_FREE, "holds GPU")
def namesake(s: Scene) -> Outcome:
    s.stranger(0, 3000, title="llama-server", comm="llama-server")
    return s.look()


@row("the driver's persistence daemon keeps the card open", FREE, harmless="open file")
def persistenced(s: Scene) -> Outcome:
    by, name = s.by, s.name("daemon")
    s.bystanders.append(by.start(name, f"exec 9< /dev/nvidia0; exec {by.command(name, comm='nvidia-persiste')}"))
    return s.look()


@row("two strangers of one session", NOT_FREE, "holds GPU")
def session(s: Scene) -> Outcome:
    hold = f"gpu-hold --gpu {s.cards[0].uuid} --mib 600 -- sleep 86399"
    s.detach(f"exec bash --norc -c '{hold} & {hold} & wait'")
    wait_until(lambda: len(state_of(s)) == 2, timeout=10, what="two holders")
    return s.look()


@row("a stranger in tmux", NOT_FREE, "holds GPU")
def tmux(s: Scene) -> Outcome:
    s.detach(f"exec gpu-odd tmux -- /lab/bin/gpu-hold --gpu {s.cards[0].uuid} --mib 700 -- sleep 86399")
    wait_until(lambda: state_of(s), timeout=10, what="a holder")
    return s.look()


@row("a stranger whose first thread has ended", NOT_FREE, "holds GPU")
def zombie_stranger(s: Scene) -> Outcome:
    odd(s, "zombie-leader", 10)
    return s.look()


@row("only one thread of a stranger has the card open, with little memory", NOT_FREE, "holds GPU", sample=True)
def thread_files(s: Scene) -> Outcome:
    odd(s, "thread-files", 10)
    return s.look()


@row("the server of another deployment holds the card, with its mark", NOT_FREE, "of deployment service-")
def neighbour_on_card(s: Scene) -> Outcome:
    mine = s.deployment
    s.deploy((0,))
    launch, s.deployment = s.launch(), mine
    log = f"/root/.relaunch/0123456789ab/1/launches/{launch.pk}"
    name = s.name("neighbour")
    command = s.by.command(name, hold=(s.cards[0].uuid, 3000))
    s.bystanders.append(s.by.start(name, f"mkdir -p {log}; exec {command} > {log}/log 2>&1"))
    return s.look()


@row("another container holds the card", NOT_FREE, "holds|still holds", on=(PCT,), sample=True)
def other_container(s: Scene) -> Outcome:
    s.stranger(0, 3000, there=s.elsewhere["container"])
    return s.look()


@row("another container holds the card, with little memory", NOT_FREE, "On the node", on=(PCT,))
def other_container_small(s: Scene) -> Outcome:
    s.stranger(0, 10, there=s.elsewhere["container"])
    return s.look()


@row("a process of the node itself holds the card, with little memory", NOT_FREE, "On the node", on=(PCT,))
def node_process(s: Scene) -> Outcome:
    s.stranger(0, 10, there=s.elsewhere["node"])
    return s.look()


@row("another container holds a card of others", FREE, on=(PCT,))
def other_container_elsewhere(s: Scene) -> Outcome:
    s.stranger(2, 3000, there=s.elsewhere["container"])
    return s.look()


# --- The port


@row("a stranger listens on the port", NOT_FREE, "listens on")
def port_taken(s: Scene) -> Outcome:
    s.bystander("listener", port=s.deployment.port)
    return s.look()


def port_held(kind: str, s: Scene) -> Outcome:
    """Look while a process has the port in this way."""
    s.faults.port_hold(s.machine, kind, s.deployment.port)
    return s.look()


for kind, title, verdict in (
    ("listens-one", "a stranger listens on the port, on the loopback only", NOT_FREE),
    ("listens-v6", "a stranger listens on the port, over IPv6 only", NOT_FREE),
    ("listens-both", "a stranger listens on the port, over both families", NOT_FREE),
    ("twin", "two strangers share the port, and would share it with a third", NOT_FREE),
    ("bound", "a stranger has bound the port and does not listen", NOT_FREE),
    ("bound-reuse", "the same, and would share it: a server that still loads", NOT_FREE),
    ("bound-one", "a stranger has bound the port on the loopback only", NOT_FREE),
    ("connection", "the port is a stranger's own end of a connection", NOT_FREE),
    ("closed", "the old server's last connection is in TIME_WAIT", FREE),
    ("closed-strict", "the same of a server that does not let its address be reused", NOT_FREE),
    ("elsewhere", "somebody listens on the same number in another network", FREE),
):
    said = "listens on|has bound|connection" if verdict == NOT_FREE else ""
    TABLE.add(f"port_{kind.replace('-', '_')}", title, partial(port_held, kind), verdict, said)


@row("a stranger listens on the next port", FREE)
def next_port(s: Scene) -> Outcome:
    s.bystander("listener", port=s.deployment.port + 20000)
    return s.look()


@row("the same port is taken on the node and in another container", FREE, on=(PCT,))
def port_of_the_node(s: Scene) -> Outcome:
    for there in s.elsewhere.values():
        s.bystander("listener", there=there, port=s.deployment.port)
    return s.look()


# --- Cards of other kinds


@row("a card in MIG mode, idle", FREE, slots=(MIG,))
def mig(s: Scene) -> Outcome:
    return s.look()


@row("a card in MIG mode that was never seen idle", FREE, slots=(MIG,))
def mig_unlearnt(s: Scene) -> Outcome:
    forget_baselines(s)
    return s.look()


@row("a MIG device is in use", NOT_FREE, "holds", slots=(MIG,))
def mig_held(s: Scene) -> Outcome:
    by, name = s.by, s.name("stranger")
    hold = f"gpu-hold --gpu {s.cards[0].uuid} --mib 1500 --mig 1 --"
    s.bystanders.append(by.start(name, f"exec {hold} {by.command(name)}"))
    return s.look()


@row("memory without an owner on a MIG device", NOT_FREE, "still holds", slots=(MIG,))
def mig_leak(s: Scene) -> Outcome:
    s.leak(MIG, 900)
    return s.look()


@row("a card in MIG mode whose memory may not be read", UNMEASURED, "memory", slots=(MIG,))
def mig_unread(s: Scene) -> Outcome:
    s.gpu("cell 3 memory.* [Insufficient Permissions]")
    return s.look()


@row("MPS has the card open and uses next to nothing", FREE, harmless="10 MiB|open file")
def mps_idle(s: Scene) -> Outcome:
    s.stranger(0, 10, comm="nvidia-cuda-mps")
    return s.look()


@row("memory of MPS is in the way, and MPS is named", NOT_FREE, "still holds.*MPS, which shares a card")
def mps_held(s: Scene) -> Outcome:
    s.stranger(0, 3000, comm="nvidia-cuda-mps")
    return s.look()


@row("a card without memory of its own tells none", UNMEASURED, "does not report it", slots=(UNIFIED,))
def unified(s: Scene) -> Outcome:
    return s.look()


@row("a card without memory of its own, and a stranger on it", NOT_FREE, "holds", slots=(UNIFIED,))
def unified_held(s: Scene) -> Outcome:
    s.stranger(UNIFIED, 3000)
    return s.look()


@row("a card with a screen, as it is when idle", FREE, slots=(DESKTOP,))
def desktop(s: Scene) -> Outcome:
    return s.look()


@row("a card with a screen that was never seen idle", FREE, slots=(DESKTOP,))
def desktop_unlearnt(s: Scene) -> Outcome:
    """What a screen may need is no reason to ask."""
    forget_baselines(s)
    return s.look()


@row("the same, and more in use than a screen needs", NOT_FREE, "still holds", slots=(DESKTOP,))
def desktop_unlearnt_leak(s: Scene) -> Outcome:
    forget_baselines(s)
    s.leak(DESKTOP, 600)
    return s.look()


@row("a card with a screen, and memory left", NOT_FREE, "still holds", slots=(DESKTOP,))
def desktop_leak(s: Scene) -> Outcome:
    s.leak(DESKTOP, 200)
    return s.look()


@row("a plain and an odd card; only the odd one is in use", NOT_FREE, "still holds", slots=(0, MIG))
def mixed(s: Scene) -> Outcome:
    s.leak(MIG, 2000)
    return s.look()


# --- The disk


@row("the machine's disk is full", FREE, on=(SSH, LOCAL))
def disk_full(s: Scene) -> Outcome:
    s.faults.disk_full(s.place.node)
    s.way_back.append(lambda: s.faults.disk_free(s.place.node))
    return s.look()


# --- What the situations share


def odd(s: Scene, kind: str, mib: int):  # type: ignore[no-untyped-def]
    """A holder that is easily missed, as a member."""
    before = len(state_of(s))
    s.detach(f"exec gpu-odd {kind} --gpu {s.cards[0].uuid} --mib {mib}")
    wait_until(lambda: len(state_of(s)) > before, timeout=10, what=kind)
    if kind == "zombie-leader":
        wait_until(lambda: [p for p in s.machine.processes() if p.state == "Z"], timeout=10, what=kind)
        s.members.append(next(process for process in s.machine.processes() if process.state == "Z"))
        return s.members[-1]
    return s.process(f"gpu-odd {kind}")


def state_of(s: Scene) -> list[state.Context]:
    """What living processes hold of the deployment's cards."""
    return [c for c in state.read_contexts(s.place.node.gpu_state) if c.live and c.card in s.slots]


def late(s: Scene, seconds: float):  # type: ignore[no-untyped-def]
    """A server whose memory is free so long after its death; it has just died."""
    launch, name = s.launch(), s.name("server")
    hold = f"gpu-hold --gpu {s.cards[0].uuid} --mib 9000 --mode delay --delay {seconds} --"
    found = s.by.start(name, f"exec {hold} {s.by.command(name)}")
    s.record(launch, found)
    s.kill(found)
    return found


def forget_baselines(s: Scene) -> None:
    """As if no card had ever been seen idle."""
    Gpu.objects.filter(host=s.place.host).update(baseline_mib=None)
