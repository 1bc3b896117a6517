"""`manage.py verifyaudit`: is the record of what was done complete and unchanged?"""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlpanel import audit


class Command(BaseCommand):
    help = "Checks the chain of audit entries and prints its head; keep heads elsewhere to notice a rewritten chain."

    def handle(self, *_: Any, **__: Any) -> None:
        report = audit.verify_chain()
        if report.broken_at is not None:
            raise CommandError(f"The chain breaks at entry {report.broken_at}: {report.reason}.")
        self.stdout.write(f"{report.entries} entries, unchanged; head {report.head}")
