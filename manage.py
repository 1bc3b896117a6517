#!/usr/bin/env python
"""The door to every command of the panel: `manage.py panel` runs it."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlpanel.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as problem:
        sys.exit(f"Relaunch cannot start: {problem}")


if __name__ == "__main__":
    main()
