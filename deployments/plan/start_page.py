"""How the new server will be started, for the plan's page: the way, what is kept, what stands in the way, what will
differ from the old server. PURE.
"""

from __future__ import annotations

from typing import Any

from deployments.plan.container_change import ContainerTold
from deployments.plan.container_run import DEPLOYMENT, Run
from deployments.plan.inputs import PlanInput
from deployments.plan.serving import Serving
from deployments.plan.start import LIMITS, Kept, Start, run_of
from deployments.plan.warnings import Cure, warning
from deployments.plan.ways import LABELS, NAMED, By
from hosts.probe.frames import Unknown

PINNED = ("numactl", "taskset")
"""Programs that choose processors; they become the server, so only what they chose is seen."""


def start_table(start: Start | None) -> list[dict[str, Any]]:
    """How it will be started, for the plan's page; no table where nothing is."""
    return [{"title": "How it is started", "rows": _rows(start)}] if start is not None else []


def _rows(start: Start) -> list[dict[str, str]]:
    way, kept = start.way, start.kept
    name = f"{LABELS[way.by]}: {way.name}" if way.by in NAMED else LABELS[way.by]
    rows = [("Started by", name, start.blocked or start.why)]
    if way.by in NAMED:
        return [_row(*row) for row in rows]
    if kept.uid is not None:
        rows.append(("User", kept.name or f"uid {kept.uid}", "as the server that runs now"))
    rows += [
        (words.capitalize(), str(limit), "as the server that runs now") for words, limit in (kept.limits or {}).items()
    ]
    return [_row(*row) for row in rows]


def _row(label: str, value: str, detail: str) -> dict[str, str]:
    return {"label": label, "value": value, "status": "info", "detail": detail}


def start_warnings(asked: PlanInput, serving: Serving, start: Start) -> list[dict[str, Any]]:
    """What stands in the way of that way, and in what the new server will differ from the old one."""
    if start.blocked:
        name = start.way.name or "a unit of systemd"
        return [
            warning(
                f"The server cannot be started by {name}. {start.blocked}",
                f"That way was taken because: {start.why}",
                f"Mend that, or choose another way to start it under Edit of {asked.deployment}.",
                blocks=True,
                cure=Cure.SETTINGS,
            )
        ]
    if lost := _secrets_lost(asked, start):
        return lost
    if start.way.by == By.RUN and asked.new is not None:
        return _container_warnings(asked, run_of(asked.deployment, asked.new))
    if start.way.by in NAMED:
        return []
    return [*_other_user(asked, serving), *_lower_limits(asked, start.kept), *_other_processors(asked, serving)]


def _secrets_lost(asked: PlanInput, start: Start) -> list[dict[str, Any]]:
    """A container that is there is given none any more; of a docker run: passing.py."""
    why = f"{asked.deployment} is not started without its secrets ({', '.join(sorted(asked.secrets))})."
    if not asked.secrets:
        return []
    if start.as_served:
        text = f"{start.way.name} starts the server in an environment of its own, so the secrets cannot be passed on."
        todo = "Keep them with the unit or container itself and remove them here, or choose another way under Edit."
        return [warning(text, why, todo, blocks=True, cure=Cure.SETTINGS)]
    if start.way.by == By.CONTAINER:
        text = (
            f"What the container {start.way.name} gets was fixed when it was made, so the secrets cannot be passed on."
        )
        todo = (
            "Write its docker run as a new revision: that is made anew at each start and gets them. Or keep them with "
            "the container and remove them here."
        )
        return [warning(text, why, todo, blocks=True, cure=Cure.FLAGS)]
    if start.way.by == By.COMPOSE and asked.secrets_odd:
        text = f"The value of {asked.secrets_odd[0]} cannot be written so that docker compose reads it as it is."
        todo = "Replace it by one without a backslash at its end or before a quotation mark."
        return [warning(text, why, todo, blocks=True, cure=Cure.SECRETS)]
    return []


def _container_warnings(asked: PlanInput, run: Run) -> list[dict[str, Any]]:
    told = asked.starter
    if not isinstance(told, ContainerTold):
        return []
    found, image = [], run.container["image"]
    if not told.would_be:
        found.append(
            warning(
                f"The image {image} is not on {asked.host} yet.",
                f"{run.tool} fetches it after the old server was stopped, which can take long, or fail.",
                f"Fetch it first: {run.tool} pull {image}",
            )
        )
    elif told.image and told.image != told.would_be:
        found.append(
            warning(
                f"{image} is another image by now than the one that {told.name} was made of.",
                "The new server may be another version of the engine.",
                "Name the image by its digest in a new revision, if it is to stay the same.",
                cure=Cure.FLAGS,
            )
        )
    if told.name and told.labels.get(DEPLOYMENT) != asked.deployment:
        found.append(
            warning(
                f"There is a container {told.name} already, which Relaunch has not made.",
                f"It is kept, stopped, as {told.name}-before-… and the start of the launch: the new one gets its name.",
                "Remove it on the host when it is not needed any more.",
            )
        )
    return found


def _other_user(asked: PlanInput, serving: Serving) -> list[dict[str, Any]]:
    root, host = serving.root, asked.facts.host
    if root is None or root.uid is None or isinstance(host, Unknown) or host.uid in (0, root.uid):
        return []
    name = asked.facts.owners.get(root.pid) or f"uid {root.uid}"
    return [
        warning(
            f"The server runs as {name}; the new one will run as {asked.login}.",
            "Only root can start programs as somebody else. Files that only the old user may read will not be found.",
            f"Log in as {name} or as root, or make sure that {asked.login} may read the model.",
        )
    ]


def _lower_limits(asked: PlanInput, kept: Kept) -> list[dict[str, Any]]:
    """A login that is not root cannot raise a limit above its own."""
    host, own = asked.facts.host, asked.facts.login_limits
    if isinstance(host, Unknown) or host.uid == 0:
        return []
    found = []
    for name, words in LIMITS.items():
        limit = (kept.limits or {}).get(words)
        if limit is not None and name in own and limit.is_above(own[name]):
            found.append(
                warning(
                    f"The server may use {limit} {words}; the login {asked.login} can give the new one {own[name]}.",
                    "A server that needs more fails while it starts or under load.",
                    f"Raise the limit of {asked.login} on {asked.host}, or log in as root.",
                )
            )
    return found


def _other_processors(asked: PlanInput, serving: Serving) -> list[dict[str, Any]]:
    details = asked.facts.details
    root = details.get(serving.root.pid) if serving.root is not None else None
    init = details.get(1)
    if root is None or init is None or asked.new is None or not root.processors or root.processors == init.processors:
        return []
    if any(word.rpartition("/")[2] in PINNED for word in asked.new.argv):
        return []
    return [
        warning(
            f"The server runs on processors {root.processors} only; the new one may use all ({init.processors}).",
            "numactl or taskset has chosen them, which often makes a server faster. The new command does not.",
            "Put the same numactl or taskset in front of the command, in a new revision.",
            cure=Cure.FLAGS,
        )
    ]
