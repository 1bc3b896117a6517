"""Who may do what: the table of the design, and that strangers may do nothing."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.test import RequestFactory

from controlpanel.access import ALLOWED, Action, Permissions, Role, may, require, requires

LOOK_ONLY = {"look"}
TABLE = {
    "viewer": LOOK_ONLY,
    "operator": {"look", "ask", "start", "test_host", "be_told"},
    "approver": {"look", "test_host", "approve", "trust_host_key", "confirm_kill", "be_told"},
    "administrator": {
        "look",
        "test_host",
        "edit_host",
        "edit_profile",
        "edit_deployment",
        "set_secret",
        "manage_people",
        "be_told",
    },
}


@pytest.mark.parametrize("role", TABLE)
def test_a_role_may_do_what_the_design_says(person: Callable[..., User], role: str) -> None:
    user = person("somebody", role)

    assert {str(action) for action in Action if may(user, action)} == TABLE[role]


def test_several_roles_add_up(person: Callable[..., User]) -> None:
    user = person("both", "operator", "approver")

    assert may(user, Action.START) and may(user, Action.APPROVE)


def test_every_role_has_its_line() -> None:
    assert set(ALLOWED) == set(Role)


@pytest.mark.parametrize("action", Action)
def test_nobody_without_a_role_may_do_anything(stranger: User, action: Action) -> None:
    assert not may(stranger, action)
    assert not may(AnonymousUser(), action)
    assert not may(None, action)


def test_a_switched_off_person_may_do_nothing(administrator: User) -> None:
    administrator.is_active = False

    assert not any(may(administrator, action) for action in Action)


def test_a_superuser_without_a_role_may_do_nothing(db: None) -> None:
    assert not may(User.objects.create_superuser("root"), Action.LOOK)


def test_the_migration_makes_the_groups(db: None) -> None:
    assert set(Group.objects.values_list("name", flat=True)) == {str(role) for role in Role}


def test_require_names_what_is_missing(viewer: User) -> None:
    with pytest.raises(PermissionDenied, match="confirm kill"):
        require(viewer, Action.CONFIRM_KILL)


def test_a_guarded_view_lets_in_whom_it_should(operator: User, viewer: User, rf: RequestFactory) -> None:
    @requires(Action.ASK)
    def view(request: HttpRequest, number: int) -> HttpResponse:
        return HttpResponse(str(number))

    request = rf.get("/")
    request.user = operator
    assert view(request, 7).content == b"7"
    request.user = viewer
    with pytest.raises(PermissionDenied):
        view(request, 7)


def test_templates_ask_by_name_and_a_wrong_name_is_an_error(operator: User) -> None:
    source = "{% if may.ask %}ask{% endif %}{% if may.approve %}approve{% endif %}"
    template = engines["django"].from_string(source)
    assert template.render({"may": Permissions(operator)}) == "ask"

    with pytest.raises(LookupError):
        engines["django"].from_string("{% if may.aprove %}x{% endif %}").render({"may": Permissions(operator)})
