"""Free, not free, or could not measure: by whoever listens, and by having tried."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.decisions.port import Having, PortHolder, PortVerdict, judge
from hosts.probe.frames import Unknown
from hosts.probe.port import DENIED, FREE, LEFT, TAKEN, UNTOLD, PortSocket, PortTrial

SILENT = Unknown("the host did not say.")
PYTHON = PortHolder(Having.LISTENS, "0.0.0.0", 77, "python3", "root")
OURS = PortHolder(Having.LISTENS, "0.0.0.0", 78, "vllm serve", "root", "chat")
HIDDEN = PortHolder(Having.LISTENS, "::", None, "", "uid 1000")
LOADS = PortHolder(Having.BOUND, "0.0.0.0", 79, "vllm serve", "uid 1001")
CLIENT = PortHolder(Having.CONNECTION, "10.0.0.5", 80, "curl", "root")
ORPHAN = PortSocket(1, "10.0.0.5", 0, 0)


@pytest.mark.parametrize(
    ("listeners", "trial", "others", "free", "words"),
    [
        ((), PortTrial(FREE), (), True, ""),
        ((), PortTrial(LEFT), (), True, "a server that reuses its address, as engines do, can start at once."),
        ((), PortTrial(LEFT, unlisted=True), (), True, "before Linux 6.8"),
        ((), PortTrial(DENIED), (), True, "This login may not use ports below 1024"),
        ((), PortTrial(UNTOLD, no_tool=True), (), True, "the host has neither perl nor python3."),
        ((), PortTrial(UNTOLD), (), True, "the host does not let it be tried."),
        ((PYTHON,), SILENT, (), False, "Port 30000 is taken: python3 (pid 77, root) listens on every IPv4 address."),
        ((PYTHON,), PortTrial(FREE), (), False, "python3 (pid 77, root) listens"),
        ((HIDDEN,), SILENT, (), False, "A process of uid 1000, which this login may not see, listens on every IPv6"),
        (
            (OURS, PYTHON),
            SILENT,
            (),
            False,
            "vllm serve (pid 78, root, of deployment chat) listens on every IPv4 address; python3 (pid 77, root) lis",
        ),
        (
            (),
            PortTrial(TAKEN),
            (LOADS,),
            False,
            "vllm serve (pid 79, uid 1001) has bound every IPv4 address and does not listen: perhaps a server that "
            "still loads.",
        ),
        ((), PortTrial(TAKEN), (CLIENT,), False, "curl (pid 80, root) uses it as its own end of a connection"),
        ((), PortTrial(TAKEN), (), False, "somebody has bound it and does not listen"),
        ((), PortTrial(TAKEN, waiting=1), (), False, "what is left of one closed connection, whose server"),
        ((), PortTrial(TAKEN, waiting=4), (), False, "what is left of 4 closed connections, whose server"),
        ((), PortTrial(TAKEN, (ORPHAN,)), (), False, "a connection that no process has open any more"),
        (SILENT, PortTrial(TAKEN), (LOADS,), False, "vllm serve (pid 79, uid 1001)"),
        (SILENT, PortTrial(FREE), (), None, "Whether port 30000 is free could not be measured: the host did not say."),
        (SILENT, PortTrial(UNTOLD), (), None, "could not be measured"),
        (SILENT, SILENT, (), None, "could not be measured"),
        ((), SILENT, (), None, "Whether port 30000 is free could not be measured: the host did not say."),
    ],
)
def test_the_verdict(
    listeners: tuple[PortHolder, ...] | Unknown,
    trial: PortTrial | Unknown,
    others: tuple[PortHolder, ...],
    free: bool | None,
    words: str,
) -> None:
    verdict = judge(30000, listeners, trial, others)
    assert verdict.free is free
    assert words in verdict.text
    assert bool(verdict.text) or verdict == PortVerdict(True)
    assert verdict.holders == (others or (listeners if isinstance(listeners, tuple) else ()))


holder = st.sampled_from([PYTHON, OURS, HIDDEN, LOADS, CLIENT])
trials = st.builds(
    PortTrial,
    st.sampled_from([FREE, LEFT, TAKEN, DENIED, UNTOLD]),
    waiting=st.integers(0, 3),
    unlisted=st.booleans(),
    no_tool=st.booleans(),
)


@given(
    st.just(SILENT) | st.lists(holder, max_size=2).map(tuple),
    st.just(SILENT) | trials,
    st.lists(holder, max_size=2).map(tuple),
)
def test_free_only_when_both_were_asked_and_neither_saw_anybody(
    listeners: tuple[PortHolder, ...] | Unknown, trial: PortTrial | Unknown, others: tuple[PortHolder, ...]
) -> None:
    verdict = judge(30000, listeners, trial, others)
    seen = listeners == () and isinstance(trial, PortTrial) and trial.word != TAKEN
    assert (verdict.free is True) == seen
    assert verdict.free is True or verdict.text
