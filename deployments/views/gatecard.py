"""The card of a job that waits for a person: its choices, which of them this reader has, and who has the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.models import User

from controlpanel.access import ALLOWED, Action, Person, may, people_who_may
from deployments.lifecycle import AT_ITS_PLAN, ServiceState
from deployments.models import Deployment, Gate, Job
from deployments.services import why_not_answer
from hosts.models import Host

TROUBLE = {
    ServiceState.CRASHED: "has crashed",
    ServiceState.NOT_ANSWERING: "has stopped answering",
    ServiceState.UNKNOWN: "has become unknown",
}
"""What a server does that its plan did not rest on."""


@dataclass(frozen=True)
class Choice:
    """One answer. ``refusal`` is empty when the reader may give it, else says who may."""

    key: str
    label: str
    detail: str
    danger: bool
    needs_reason: bool
    needs_name: bool
    refusal: str


@dataclass(frozen=True)
class WaysOut:
    """What a reader can do who may not take the recommended choice: ask one of ``people``, or invite a ``role``.

    ``own``: the reader may not only because they have asked for the job.
    """

    own: bool
    people: list[str]
    role: str


@dataclass(frozen=True)
class GateCard:
    """A question with its choices; the first one is recommended."""

    gate: Gate
    choices: list[Choice]
    ways_out: WaysOut | None = None
    moved: tuple[str, ...] = ()
    """Of a plan: what has become of a server since it was made, in sentences."""

    @property
    def recommended(self) -> Choice | None:
        """The first choice, when the reader may take it."""
        return self.choices[0] if self.choices and not self.choices[0].refusal else None

    @property
    def others(self) -> list[Choice]:
        """What else the reader may choose."""
        return [choice for choice in self.choices[1:] if not choice.refusal]

    @property
    def can_discard(self) -> bool:
        """One of the reader's choices ends the job as a cancel does: it is not offered twice."""
        return any(choice.key == "discard" and not choice.refusal for choice in self.choices)

    @property
    def waits_for(self) -> str:
        """Who may take the recommended choice, when the reader may not."""
        return self.choices[0].refusal if self.choices else ""

    @property
    def needs_name(self) -> bool:
        """One of the reader's choices asks for the deployment's name."""
        return any(choice.needs_name and not choice.refusal for choice in self.choices)

    @property
    def needs_reason(self) -> bool:
        """One of the reader's choices asks for a reason."""
        return any(choice.needs_reason and not choice.refusal for choice in self.choices)


def why_is_missing(gate: Gate, given: Mapping[str, str]) -> bool:
    """The answer that was given needs a reason and has none; its field is marked then."""
    option: dict[str, Any] = next((known for known in gate.choices if known["key"] == given["choice"]), {})
    return bool(option.get("needs_reason")) and not given["comment"].strip()


def gate_card(job: Job, *, user: Person) -> GateCard | None:
    """The open question of a job as ``user`` sees it; None when none is open."""
    gate = next((gate for gate in job.gates.all() if gate.answered_at is None), None)
    if gate is None:
        return None
    card = GateCard(gate, [_choice(job, choice, user=user) for choice in gate.choices], moved=_moved(job, gate))
    return card if card.recommended else replace(card, ways_out=_ways_out(job, _action(gate.choices[0]), user=user))


def _moved(job: Job, gate: Gate) -> tuple[str, ...]:
    """What the monitor has seen since a plan was made that nobody has begun to carry out."""
    if gate.kind not in AT_ITS_PLAN or job.touched:
        return ()
    return tuple(said for one in job.subjects if (said := _what_became_of(one, gate)))


def _what_became_of(deployment: Deployment, gate: Gate) -> str:
    host = deployment.placement.host
    if host.reach == Host.Reach.UNREACHABLE:
        return f"How {deployment} is now is not known: {host} cannot be reached."
    since = deployment.state_since
    if since is None or since <= gate.opened_at or deployment.state not in TROUBLE:
        return ""
    return f"{deployment} {TROUBLE[ServiceState(deployment.state)]} since this plan was made. {deployment.state_detail}"


def ways_to_approval(deployment: Deployment, *, user: User) -> WaysOut | None:
    """Who would decide about a job that ``user`` asks for; None when they may do it themselves."""
    job = Job(deployment=deployment, requested_by=user)  # asked for in thought only
    return _ways_out(job, Action.APPROVE, user=user) if why_not_answer(job, Action.APPROVE, user) else None


def _ways_out(job: Job, action: Action, *, user: Person) -> WaysOut:
    """Who else may do ``action``, by name."""
    others = people_who_may(action, *([Action.APPROVE] if action == Action.ASK else []))
    people = [person.get_username() for person in others if not why_not_answer(job, action, person)]
    return WaysOut(may(user, action), people, role=next(role for role in ALLOWED if action in ALLOWED[role]))


def _choice(job: Job, choice: dict[str, Any], *, user: Person) -> Choice:
    danger = bool(choice.get("danger"))
    return Choice(
        key=choice["key"],
        label=choice["label"],
        detail=choice.get("detail", ""),
        danger=danger,
        needs_reason=bool(choice.get("needs_reason")),
        needs_name=job.guarded is not None and (danger or choice["key"] == "approve"),
        refusal=_refusal(job, choice, user=user),
    )


def _action(choice: Mapping[str, Any]) -> Action:
    return Action(choice["action"])


def _refusal(job: Job, choice: dict[str, Any], *, user: Person) -> str:
    """Who may give this answer, when the reader may not; the services decide, this only words it."""
    action = _action(choice)
    if isinstance(user, User) and not why_not_answer(job, action, user):
        return ""
    return "another approver" if may(user, action) else who_may(action)


def who_may(action: Action) -> str:
    """The roles that may do ``action``, in words: *an approver*, *an approver or an administrator*."""
    return " or ".join(
        f"an {role}" if role[0] in "aeiou" else f"a {role}" for role in ALLOWED if action in ALLOWED[role]
    )
