"""Every question that a job asks, and every choice of it, as a teammate reads them.

``steps.press`` takes them from here, and ``tests/deployments/test_answers.py`` sees that each is pressed in a browser.
"""

from deployments.lifecycle import GateKind

TITLES: dict[GateKind, str] = {
    GateKind.PLAN: "Approve and|The plan is out of date",
    GateKind.WHEN_IDLE: "Waits until no request runs",
    GateKind.ROUTER: "could not be taken out of its router",
    GateKind.MANAGER: "may start the server again|also ends",
    GateKind.KILL: "The server did not end when told to",
    GateKind.NODE_KILL: "could not be killed inside",
    GateKind.NOT_FREE: "The cards are not free|could not be measured|left over from the old server|has come back",
    GateKind.NOT_READY: "The server is not ready yet",
    GateKind.WAY_BACK: "The restart failed",
    GateKind.CONTACT: "The host answers again",
    GateKind.TRAFFIC: "Whether users are served now is not known|of users runs? now",
}
"""Patterns: the same kind of question may be asked in several ways."""
BUTTONS: dict[tuple[GateKind, str], str] = {
    (GateKind.PLAN, "approve"): "Approve and",
    (GateKind.PLAN, "discard"): "Discard this plan",
    (GateKind.WHEN_IDLE, "ask"): "Ask anew now",
    (GateKind.WHEN_IDLE, "discard"): "Do not do it",
    (GateKind.ROUTER, "again"): "Try again",
    (GateKind.ROUTER, "without"): "Go on without",
    (GateKind.ROUTER, "discard"): "Cancel the job",
    (GateKind.MANAGER, "again"): "Look again",
    (GateKind.MANAGER, "stop"): "Stop the server only",
    (GateKind.MANAGER, "leave"): "Leave it",
    (GateKind.KILL, "kill"): "Kill these processes",
    (GateKind.KILL, "wait"): "Wait another",
    (GateKind.KILL, "leave"): "Leave it as it is",
    (GateKind.NODE_KILL, "kill"): "Kill these processes from pve",
    (GateKind.NODE_KILL, "wait"): "Wait another",
    (GateKind.NODE_KILL, "leave"): "Leave it as it is",
    (GateKind.NOT_FREE, "again"): "ook again",
    (GateKind.NOT_FREE, "accept"): "Go on beside these co-tenants",
    (GateKind.NOT_FREE, "kill"): "Kill this process",
    (GateKind.NOT_FREE, "kill_left"): "Kill what is left over from the old server",
    (GateKind.NOT_FREE, "leave"): "Leave it stopped",
    (GateKind.NOT_FREE, "anyway"): "Launch anyway",
    (GateKind.NOT_READY, "longer"): "Wait another",
    (GateKind.NOT_READY, "stop"): "Stop it",
    (GateKind.NOT_READY, "leave"): "Leave it as it is",
    (GateKind.WAY_BACK, "back"): "again",
    (GateKind.WAY_BACK, "as it is"): "Leave it as it is",
    (GateKind.CONTACT, "go_on"): "Go on",
    (GateKind.CONTACT, "end"): "End the job here",
    (GateKind.TRAFFIC, "again"): "Look again",
    (GateKind.TRAFFIC, "anyway"): "Measure all the same",
    (GateKind.TRAFFIC, "leave"): "Do not measure now",
}
"""What the button of each choice says."""
