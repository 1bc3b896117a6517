"""`manage.py panel`: the whole panel with one command."""

import argparse
import os
import socket
import sys
from typing import Any

from django.conf import settings
from django.core.management import CommandError
from django.core.management.base import BaseCommand

from controlpanel import preparation


class Command(BaseCommand):
    help = "Runs the panel: web, worker, monitor and, without REDIS_URL, an embedded Valkey."
    requires_system_checks = []  # they ran when the code was tested; a start should be quick

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8000, help="port to listen on")
        parser.add_argument("--fd", type=int, help="an inherited listening socket, instead of --host and --port")
        parser.add_argument("--no-migrate", action="store_true", help="leave the tables as they are")
        parser.add_argument("--link", action="store_true", help="print a sign-in link even if somebody can sign in")

    def handle(self, *_: Any, **options: Any) -> None:
        listener = self._listener(options)
        if not options["no_migrate"] and preparation.migrate():
            self.stderr.write("panel: the tables are up to date")
        argv = preparation.prepare(listener, always_link=options["link"], say=self.stderr.write)
        # The small supervisor replaces this process, so that Django does not stay in memory a fourth time.
        listener.set_inheritable(True)
        os.chdir(settings.BASE_DIR)
        sys.stderr.flush()
        os.execv(argv[0], argv)

    def _listener(self, options: dict[str, Any]) -> socket.socket:
        if options["fd"] is None:
            return preparation.listen(host=options["host"], port=options["port"])
        try:
            listener = socket.socket(fileno=options["fd"])
            listener.getsockname()
        except OSError as problem:
            raise CommandError(f"--fd {options['fd']} is not a listening socket ({problem.strerror}).") from problem
        return listener
