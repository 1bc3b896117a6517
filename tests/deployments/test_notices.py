"""Told by chat or mail: what is news and may be decided, once, at an address that nobody reads back."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import ServiceState
from deployments.models import Deployment, Notice, NoticeAddress
from deployments.notices import due
from deployments.notices.sending import BadAddress, service_of
from tests.factories import make_deployment, make_gate, make_job

pytestmark = pytest.mark.django_db

TOKEN = "hush-hush-token-77"


class Receiver(ThreadingHTTPServer):
    """A chat service on this machine: what it was sent, and how it answers."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.heard: list[dict[str, Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.server_address[1]}/{TOKEN}"


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def chat() -> Iterator[Receiver]:
    with Receiver() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def add(user: User, chat: Receiver, *, name: str = "chat", deployment: Deployment | None = None) -> NoticeAddress:
    return services.add_notice_address(name=name, url=chat.url, deployment=deployment, actor=user, address="")


def send_all() -> None:
    due.note_and_ring()
    for pk in Notice.objects.values_list("pk", flat=True):
        due.deliver(pk)


def titles(chat: Receiver) -> list[str]:
    return [message["title"] for message in chat.heard]


@pytest.mark.long
def test_what_waits_is_told_once_to_who_may_decide(chat: Receiver, approver: User, operator: User) -> None:
    add(approver, chat)
    add(operator, chat)
    make_gate(make_job(make_deployment(name="qwen"), at_step=0, state="waiting"))
    send_all()
    send_all()
    assert titles(chat) == ["qwen waits for you"]
    assert TOKEN not in str(chat.heard)


def test_what_was_there_before_the_address_is_no_news(chat: Receiver, approver: User) -> None:
    make_job(make_deployment(), state="failed", ended_at=timezone.now())
    add(approver, chat)
    make_job(make_deployment(name="late"), state="failed", ended_at=timezone.now())
    send_all()
    assert titles(chat) == ["late failed"]


def test_an_address_may_be_about_one_deployment(chat: Receiver, operator: User) -> None:
    one, other = make_deployment(name="one"), make_deployment(name="other")
    add(operator, chat, deployment=one)
    for deployment, state in ((one, ServiceState.CRASHED), (other, ServiceState.NOT_ANSWERING)):
        Deployment.objects.filter(pk=deployment.pk).update(state=state, state_since=timezone.now())
    send_all()
    assert titles(chat) == ["one has crashed"]


def test_a_service_that_does_not_take_it_is_tried_again_and_then_no_more(chat: Receiver, operator: User) -> None:
    chat.status = 404
    row = add(operator, chat)
    services.send_test_notice(row, actor=operator)
    notice = Notice.objects.get()
    for tried in range(1, len(due.PAUSES) + 2):
        Notice.objects.update(due_at=timezone.now() - timedelta(seconds=1))
        due.deliver(notice.pk)
        notice.refresh_from_db()
        assert (
            notice.tries == tried
            and notice.problem == "The service has not taken it: it answered with HTTP status 404."
        )
    assert notice.due_at is None and notice.sent_at is None
    due.deliver(notice.pk)
    assert len(chat.heard) == len(due.PAUSES) + 1


def test_who_may_look_no_more_is_told_no_more(chat: Receiver, operator: User) -> None:
    add(operator, chat)
    operator.groups.clear()
    make_job(make_deployment(), state="failed", ended_at=timezone.now())
    send_all()
    assert chat.heard == []


@pytest.mark.parametrize(
    "url", ["", "nonsense", "nosuch://x", "syslog://", "slack://too-short", "http:/x", "ｊson://x"]
)
def test_what_is_no_address_is_said_without_it(url: str) -> None:
    with pytest.raises(BadAddress) as refused:
        service_of(url)
    assert not url or url not in str(refused.value)


@pytest.mark.parametrize("option", ["template=/etc/passwd", "keyfile=x", "rto=9e9", "RTO=1"])
def test_an_address_reads_no_file_here_and_keeps_nobody_waiting(option: str) -> None:
    with pytest.raises(BadAddress, match="options"):
        service_of(f"json://127.0.0.1/?{option}")


def test_what_cannot_be_sent_at_all_is_given_up_and_said(operator: User) -> None:
    url = "json://127.0.0.1:1/?+X-Foo=%E2%82%AC"
    row = services.add_notice_address(name="odd", url=url, deployment=None, actor=operator, address="")
    services.send_test_notice(row, actor=operator)
    due.deliver(Notice.objects.get().pk)
    notice = Notice.objects.get()
    assert notice.tries == 1 and "could not be made" in notice.problem


def test_a_kind_that_nobody_knows_leaves_no_token_in_the_panels_log(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadAddress):
        service_of(f"slak://{TOKEN}/x")
    assert TOKEN not in "".join(capfd.readouterr())


def test_the_page_never_shows_the_address(client: Client, operator: User, approver: User, chat: Receiver) -> None:
    client.force_login(operator)
    bad = client.post("/notices/", {"name": "x", "url": f"nosuch://{TOKEN}", "deployment": ""})
    assert bad.status_code == 409 and TOKEN not in bad.content.decode()
    assert client.post("/notices/", {"name": "team", "url": chat.url, "deployment": ""}).status_code == 302
    assert client.post("/notices/", {"name": "team", "url": chat.url, "deployment": ""}).status_code == 409
    row = NoticeAddress.objects.get()
    assert TOKEN not in row.sealed and TOKEN not in str([entry.detail_json for entry in AuditEntry.objects.all()])
    page = client.get("/notices/").content.decode()
    assert "team" in page and "JSON" in page and TOKEN not in page
    client.force_login(approver)
    assert client.post(f"/notices/{row.pk}/remove/").status_code == 404
    assert "<strong>team<" not in client.get("/notices/").content.decode()
    client.force_login(operator)
    assert client.post(f"/notices/{row.pk}/test/").status_code == 302
    assert client.post(f"/notices/{row.pk}/remove/").status_code == 302
    assert not Notice.objects.exists()


def test_the_page_is_in_the_menu_and_says_how_an_address_is_written(client: Client, operator: User) -> None:
    client.force_login(operator)
    menu, page = client.get("/notices/").content.decode().split("<main")
    assert re.search(r'<li><a href="/notices/" aria-current="page">.*Notices</a></li>', menu)
    assert "Apprise, a free program library" in page and "<code>ntfys://ntfy.sh/our-own-topic</code>" in page


def test_a_viewer_has_none(client: Client, viewer: User) -> None:
    client.force_login(viewer)
    answer = client.get("/notices/")
    assert answer.status_code == 403 and 'href="/notices/"' not in client.get("/").content.decode()


def test_the_link_is_the_one_that_browsers_use(settings: Any) -> None:
    assert due.link_to("/jobs/1/") == ""
    settings.PANEL_URL = urlsplit("https://p.example.com")
    assert due.link_to("/jobs/1/") == "https://p.example.com/jobs/1/"
