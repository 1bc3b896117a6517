"""Launch: one start of one server."""

from __future__ import annotations

import uuid

from django.db import models

from deployments.lifecycle import LIVE_LAUNCH, LaunchState, choices


class Launch(models.Model):
    """One start of one server: its revision, its identity on the host, its log and how it went.

    At most one launch of a deployment is live; the database refuses a second.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    deployment = models.ForeignKey("deployments.Deployment", models.CASCADE, related_name="launches")
    revision = models.ForeignKey("deployments.Revision", models.PROTECT, related_name="launches", null=True)
    job = models.ForeignKey("deployments.Job", models.SET_NULL, null=True, related_name="launches")
    host = models.ForeignKey("hosts.Host", models.SET_NULL, null=True, related_name="launches")
    state = models.CharField(max_length=12, choices=choices(LaunchState), default=LaunchState.INTENDED.value)
    directory = models.CharField(max_length=500, blank=True, help_text="Its own directory on the host.")
    started_by = models.CharField(max_length=260, blank=True, help_text="The way it was started (plan/ways.py).")

    adopted_at = models.DateTimeField(null=True, help_text="When it was adopted; empty: the panel has started it.")
    adopted_by_name = models.CharField(max_length=150, blank=True)

    boot_id = models.CharField(max_length=36, blank=True)
    pid_namespace = models.CharField(max_length=64, blank=True)
    pid = models.PositiveIntegerField(null=True)
    start_time = models.PositiveBigIntegerField(null=True, help_text="Clock ticks since boot, /proc/PID/stat field 22.")

    requested = models.JSONField(default=dict, help_text="argv, env, workdir and port as sent.")
    effective = models.JSONField(default=dict, help_text="What the engine made of it.")
    model = models.JSONField(
        default=dict, help_text="{path, print} of its model's files on the host; {path, unknown} where not read."
    )
    memory_before = models.JSONField(default=dict, help_text="memory.used in MiB by card uuid, just before the start.")
    memory_used = models.JSONField(
        default=dict, help_text="MiB that the server itself used by card uuid, measured once it answered."
    )
    timings = models.JSONField(default=dict, help_text="Seconds by phase.")
    completion = models.TextField(blank=True, help_text="The text of the first real completion.")

    log_file = models.CharField(max_length=48, blank=True, help_text="Device and inode of the log on the host.")
    log_begins_at = models.PositiveBigIntegerField(
        default=0,
        help_text="Where that file's first byte stands in what is stored; more than 0 when it is not the first.",
    )
    log_mark = models.CharField(max_length=64, blank=True, help_text="Of the raw bytes before the first not stored.")

    intended_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ready_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    exit_code = models.IntegerField(null=True)
    end_reason = models.TextField(blank=True)
    crashed = models.BooleanField(default=False, help_text="It was found ended, and no job had ended it.")

    class Meta:
        ordering = ["-intended_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["deployment"],
                condition=models.Q(state__in=[state.value for state in LIVE_LAUNCH]),
                name="one_live_launch_per_deployment",
            )
        ]

    def __str__(self) -> str:
        return f"launch {str(self.id)[:8]} of {self.deployment}"

    @property
    def log_path(self) -> str:
        """The server's log on the host."""
        return f"{self.directory}/log"
