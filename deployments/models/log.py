"""What a job said and saw: its log in chunks, and the memory curve of its cards."""

from __future__ import annotations

from django.db import models


class LogChunk(models.Model):
    """A piece of a job's log. ``seq`` has no gap within a job.

    Chunks of a server's own log carry the byte range of the file on the host they come from, so that the
    bytes stored plus the bytes declared dropped are the bytes produced.
    """

    class Source(models.TextChoices):
        PANEL = "panel", "Relaunch"
        SERVER = "server", "Server"

    job = models.ForeignKey("deployments.Job", models.CASCADE, related_name="log")
    seq = models.PositiveIntegerField()
    source = models.CharField(max_length=8, choices=Source.choices)
    step = models.CharField(max_length=16, blank=True)
    launch = models.ForeignKey("deployments.Launch", models.SET_NULL, null=True, related_name="log")
    offset = models.PositiveBigIntegerField(default=0, help_text="First byte in the host's file (server chunks).")
    length = models.PositiveBigIntegerField(default=0, help_text="Bytes of the host's file that this chunk stands for.")
    dropped = models.PositiveBigIntegerField(default=0, help_text="Of these, bytes declared dropped.")
    line = models.PositiveIntegerField(default=1, help_text="The number of the first line that begins in it.")
    lines = models.PositiveIntegerField(default=0, help_text="How many lines begin in it.")
    text = models.TextField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["job_id", "seq"]
        constraints = [models.UniqueConstraint(fields=["job", "seq"], name="log_seq_once")]
        indexes = [models.Index(fields=["job", "line"], name="log_line_of_job")]

    def __str__(self) -> str:
        return f"log {self.seq} of job {self.job_id}"


class JobReading(models.Model):
    """Memory of one card at one moment of a job, kept with the job for ever."""

    job = models.ForeignKey("deployments.Job", models.CASCADE, related_name="readings")
    gpu_uuid = models.CharField(max_length=96)
    at = models.DateTimeField()
    used_mib = models.PositiveIntegerField(null=True, help_text="null: could not be measured")

    class Meta:
        ordering = ["job_id", "id"]

    def __str__(self) -> str:
        return f"{self.gpu_uuid} {self.used_mib} MiB"
