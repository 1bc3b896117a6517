"""What every test can ask for: one person of each role, and clients that are signed in."""

import shutil
import signal
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest
import pytest_django
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client

ROLES = ("viewer", "operator", "approver", "administrator")


def pytest_configure() -> None:
    """A shell starts what it puts in the background (`make test &`) deaf to Ctrl-C, and all of it inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Laws that are tried on many examples take their time: they are for `make test`."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("long")


@pytest.fixture(scope="session", autouse=True)
def _throw_away_data_directory() -> Iterator[None]:
    yield
    shutil.rmtree(settings.DATA_DIR, ignore_errors=True)


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker, request: pytest.FixtureRequest
) -> None:
    """The tables are made from the models, which takes a tenth of what the migrations take: those are tried once, in
    tests/test_migrations.py. What they put in beside tables is put in here."""
    if request.config.getoption("nomigrations"):
        with django_db_blocker.unblock():
            import_module("controlpanel.migrations.0002_roles").make_roles(apps, None)


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    """Return a function that makes a person with some roles: `person("ana", "viewer", "operator")`."""

    def make(name: str, *roles: str) -> User:
        user = User.objects.create_user(name, password="correct horse battery")
        # After a test with real transactions the groups of the migration are gone.
        user.groups.set([Group.objects.get_or_create(name=role)[0] for role in roles])
        return user

    return make


@pytest.fixture
def viewer(person: Callable[..., User]) -> User:
    return person("viewer", "viewer")


@pytest.fixture
def operator(person: Callable[..., User]) -> User:
    return person("operator", "operator")


@pytest.fixture
def approver(person: Callable[..., User]) -> User:
    return person("approver", "approver")


@pytest.fixture
def administrator(person: Callable[..., User]) -> User:
    """An administrator with every role, as the first one is."""
    return person("administrator", *ROLES)


@pytest.fixture
def stranger(person: Callable[..., User]) -> User:
    """Somebody who can sign in but has no role."""
    return person("stranger")


@pytest.fixture
def client_of(db: None) -> Callable[[User], Client]:
    """Return a function that gives a client signed in as somebody."""

    def make(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return make
