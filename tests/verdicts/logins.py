"""Where not everybody is root: what a plain login may see and do, and whose word counts."""

from __future__ import annotations

from typing import Any

from deployments.models import Launch
from hosts.models import Host
from lab.tree import LOGIN, LOGIN_ID, one_user_only
from tests.verdicts.looks import AT_ONCE
from tests.verdicts.scene import Scene
from tests.verdicts.situation import ALL, FREE, NOT_FREE, REFUSED, SSH, STOPPED, Outcome, Table
from tests.verdicts.stops import SOON, TERM

AS_LOGIN = f"setpriv --reuid {LOGIN_ID} --regid {LOGIN_ID} --clear-groups"
TABLE = Table(on=(SSH,), policy=AT_ONCE)
row = TABLE.row


@row("a plain login, nobody is there", FREE, "may not see")
def plain_login(s: Scene) -> Outcome:
    log_in_plainly(s)
    return s.look()


@row("a plain login, root's process holds the card", NOT_FREE, "still holds 3,000 MiB")
def plain_login_held(s: Scene) -> Outcome:
    log_in_plainly(s)
    s.stranger(0, 3000)
    return s.look()


@row("a plain login, root's process holds no more than the limit, and the driver tells of it", NOT_FREE, "holds GPU 0")
def plain_login_told(s: Scene) -> Outcome:
    log_in_plainly(s)
    s.stranger(0, 10)
    return s.look()


@row("a plain login, root's process holds no more than the limit", FREE, "may not see", harmless="10 MiB|open file")
def plain_login_hidden(s: Scene) -> Outcome:
    """The rule says so: what may not be looked for does not count against memory at its baseline."""
    log_in_plainly(s)
    s.stranger(0, 10)
    s.gpu("hide")
    return s.look()


@row("a plain login, root's process listens on the port", NOT_FREE, "listens on")
def plain_login_port(s: Scene) -> Outcome:
    log_in_plainly(s)
    s.bystander("listener", port=s.deployment.port)
    return s.look()


@row("a plain login may not signal root's server", REFUSED, "may not signal", policy=SOON)
def plain_login_stop(s: Scene) -> Outcome:
    server = s.serve()
    s.expected.append((server, []))
    log_in_plainly(s)
    return s.stop()


@row("another user's process carries the launch's mark", STOPPED, on=ALL, policy=SOON)
def forged_mark(s: Scene) -> Outcome:
    launch = s.launch()
    [server] = s.tree(launch)
    name = s.name("forger")
    command = s.by.command(name, env={"RELAUNCH_LAUNCH_ID": str(launch.pk)})
    s.bystanders.append(s.by.start(name, f"exec {AS_LOGIN} {command}"))
    s.expected.append((server, [TERM]))
    return s.stop()


@row("another user's process writes to a file that is called like the launch's log", STOPPED, on=ALL, policy=SOON)
def forged_log(s: Scene) -> Outcome:
    launch = s.launch()
    [server] = s.tree(launch)
    forge(s, launch)
    s.expected.append((server, [TERM]))
    return s.stop()


@row("a stranger on the card writes to what is called like a co-tenant's log", NOT_FREE, "holds GPU", on=ALL)
def forged_co_tenant(s: Scene) -> Outcome:
    partner = s.story.deploy_standin(s.place, cards=(0,))
    s.deployment.shares_with.add(partner)
    forge(
        s,
        Launch.objects.create(deployment=partner, revision=partner.revision, host=s.place.host, state="serving"),
        hold=(s.cards[0].uuid, 10),
    )
    return s.look()


def forge(s: Scene, launch: Launch, **options: Any) -> None:
    """A stranger's process whose output goes to a file of its own, named as the log of this launch."""
    folder, name = f"/tmp/forger/.relaunch/ab/1/launches/{launch.pk}", s.name("forger")
    s.shell(f"mkdir -p {folder}; chmod -R 777 /tmp/forger")
    s.bystanders.append(s.by.start(name, f"exec {AS_LOGIN} {s.by.command(name, **options)} >> {folder}/log"))


def log_in_plainly(s: Scene) -> None:
    """From now on, and until the situation is over."""
    row = Host.objects.filter(pk=s.place.host.pk)
    row.update(user=LOGIN)
    s.way_back.append(lambda: row.update(user="root"))


ROWS = [] if one_user_only() else TABLE.rows
"""Without root the lab has one user only."""
