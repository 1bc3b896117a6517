"""`manage.py signinlink`: a way in that works once, printed where only the panel's operator sees it."""

import argparse
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlpanel import signin
from controlpanel.access import Role


class Command(BaseCommand):
    help = "Prints a one-time link: to create an administrator, or with --user to let somebody choose a password."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--user", help="for this person; with --role they are added if they do not exist")
        parser.add_argument("--role", action="append", choices=[str(role) for role in Role], help="may be repeated")
        own = settings.PANEL_URL.geturl() if settings.PANEL_URL else "http://127.0.0.1:8000"
        parser.add_argument("--url", default=own, help="how browsers reach the panel")

    def handle(self, *_: Any, **options: Any) -> None:
        roles = [Role(name) for name in options["role"] or []]
        if roles and not options["user"]:
            raise CommandError("--role needs --user.")
        person = signin.invite(options["user"], roles=roles) if options["user"] else None
        if options["user"] and person is None:
            raise CommandError(f"There is no {options['user']!r}; add --role viewer (or another) to invite them.")
        self.stdout.write(options["url"].rstrip("/") + signin.make_link(user=person).path)
