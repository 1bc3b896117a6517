"""Days as people name them, in the panel's zone."""

from datetime import date, datetime, time

from django.utils import timezone


def midnight(day: date) -> datetime:
    """The moment at which a day begins."""
    return timezone.make_aware(datetime.combine(day, time.min))
