"""Benchmark: how fast one launch was at one time."""

from __future__ import annotations

from django.db import models

from deployments.benchmark.figures import Level, level_from


class Benchmark(models.Model):
    """What was measured of a launch, with all that the figures depend on."""

    launch = models.ForeignKey("deployments.Launch", models.CASCADE, related_name="benchmarks")
    job = models.OneToOneField("deployments.Job", models.SET_NULL, null=True, related_name="benchmark")
    revision = models.ForeignKey("deployments.Revision", models.PROTECT, related_name="benchmarks")
    engine_version = models.CharField(max_length=100, blank=True, help_text="Empty: the engine did not tell.")
    cards = models.JSONField(default=list, help_text="[{uuid, label, name}]")
    tokens = models.PositiveIntegerField(help_text="Asked for with each request.")
    levels = models.JSONField(default=list, help_text="Figures by concurrency (benchmark/figures.py).")
    measured_at = models.DateTimeField()

    class Meta:
        ordering = ["-measured_at"]

    def __str__(self) -> str:
        return f"benchmark of {self.launch}"

    @property
    def figures(self) -> list[Level]:
        """Its levels, the lowest concurrency first."""
        return [level_from(data) for data in self.levels]
