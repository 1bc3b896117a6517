"""Which machines exist, how to reach them, and what was last read from their cards."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from hosts import addresses, baseline

STALE = timedelta(seconds=10)
"""A reading of a card older than this says nothing of whether it is free."""


class Host(models.Model):
    """A machine the panel reaches.

    A container of a Proxmox node is a host of its own whose ``via`` is the node. Jump hosts use ``via`` too.
    """

    class TransportKind(models.TextChoices):
        SSH = "ssh", "SSH"
        PCT = "pct", "Container of a Proxmox host"
        LOCAL = "local", "This machine"

    class KeySource(models.TextChoices):
        PANEL = "panel", "The panel's own key"
        FILE = "file", "A key file on the panel's machine"
        AGENT = "agent", "The SSH agent of the panel's user"

    class Reach(models.TextChoices):
        UNKNOWN = "unknown", "Not tested yet"
        REACHABLE = "reachable", "Reachable"
        UNREACHABLE = "unreachable", "Unreachable"

    name = models.CharField(max_length=64, unique=True)
    transport = models.CharField(max_length=8, choices=TransportKind.choices, default=TransportKind.SSH)
    address = models.CharField(max_length=255, blank=True)
    port = models.PositiveIntegerField(default=22)
    user = models.CharField(max_length=32, default="root", blank=True)
    via = models.ForeignKey("self", models.PROTECT, null=True, blank=True, related_name="reached_through")
    vmid = models.PositiveIntegerField("container id", null=True, blank=True)
    key_source = models.CharField(max_length=8, choices=KeySource.choices, default=KeySource.PANEL)
    key_path = models.CharField(max_length=500, blank=True)
    look_only = models.BooleanField(default=False, help_text="Show everything, change nothing.")
    sudo = models.BooleanField(default=False, help_text="The login is not root: use sudo -n where root is needed.")
    maintenance = models.TextField(blank=True, help_text="Why nobody looks at it at the moment; empty: it is read.")

    reach = models.CharField(max_length=12, choices=Reach.choices, default=Reach.UNKNOWN)
    reach_since = models.DateTimeField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    problem = models.TextField(blank=True, help_text="What happened at the last try, in one sentence.")
    hint = models.TextField(blank=True, help_text="What to do about it.")
    boot_id = models.CharField(max_length=36, blank=True)
    hostname = models.CharField(max_length=255, blank=True, help_text="What it calls itself, by its last test.")
    gpu_problem = models.TextField(blank=True, help_text="Why the cards cannot be read, if they cannot.")

    monitor_owner = models.CharField(max_length=64, blank=True)
    monitor_lease_until = models.DateTimeField(null=True, blank=True)

    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @classmethod
    def held(cls, pk: int, owner: str) -> models.QuerySet[Host]:
        """The host while the monitor ``owner`` has it: a condition of everything that it writes of the host.

        One that was frozen finds its lease over, and must not put what it read before in the place of newer facts.
        """
        return cls.objects.filter(pk=pk, monitor_owner=owner, monitor_lease_until__gt=Now())

    @property
    def is_off(self) -> bool:
        """A container that the last try has found stopped: then nothing runs there."""
        return self.transport == self.TransportKind.PCT and self.problem.endswith(" is not running.")

    def clean(self) -> None:
        """Refuse what cannot work, with a sentence that says what to write instead."""
        problems: dict[str, str] = {}
        for field, check in (
            ("address", addresses.check_address),
            ("port", addresses.check_port),
            ("user", addresses.check_user),
        ):
            if self.transport != self.TransportKind.SSH:
                continue
            try:
                check(getattr(self, field))
            except ValueError as error:
                problems[field] = str(error)
        if self.transport == self.TransportKind.PCT:
            if self.via is None:
                problems["via"] = "Choose the Proxmox host that runs this container (add it first, by SSH)."
            try:
                addresses.check_vmid(self.vmid)
            except ValueError as error:
                problems["vmid"] = str(error)
        if self.key_source == self.KeySource.FILE and not self.key_path:
            problems["key_path"] = "Give the path of the private key file on the panel's machine."
        if problems:
            raise ValidationError(problems)

    @property
    def machine(self) -> Host:
        """The machine whose cards this host uses: the node for a container, else the host itself."""
        if self.transport == self.TransportKind.PCT and self.via is not None:
            return self.via
        return self

    def hold(self) -> None:
        """Keep the row as it is until the transaction ends (also on SQLite, which has no SELECT FOR UPDATE)."""
        Host.objects.filter(pk=self.pk).update(name=models.F("name"))

    def held_for_a_job(self) -> Host:
        """The host as it is now, held with its machine: neither goes into maintenance until the transaction ends."""
        for one in sorted({self, self.machine}, key=lambda host: host.pk):
            one.hold()
        return Host.objects.select_related("via").get(pk=self.pk)

    @property
    def where(self) -> str:
        """How the host is reached, in words for a page."""
        if self.transport == self.TransportKind.PCT:
            return f"container {self.vmid} of {self.via}"
        if self.transport == self.TransportKind.LOCAL:
            return "this machine"
        jump = f" via {self.via}" if self.via is not None else ""
        return f"{self.user}@{self.address}:{self.port}{jump}"


class HostKey(models.Model):
    """A host's public key: offered at a connection, or pinned by a person who compared the fingerprint."""

    host = models.ForeignKey(Host, models.CASCADE, related_name="keys")
    key_type = models.CharField(max_length=64)
    key_base64 = models.TextField()
    fingerprint = models.CharField(max_length=64)
    offered_at = models.DateTimeField(auto_now_add=True)
    pinned_at = models.DateTimeField(null=True, blank=True)
    pinned_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "key_type", "fingerprint"], name="host_key_once")]

    def __str__(self) -> str:
        return f"{self.host} {self.fingerprint}"


class HostTest(models.Model):
    """One run of the connection test, made by a worker and shown on the host's page as it goes."""

    host = models.ForeignKey(Host, models.CASCADE, related_name="tests")
    requested_at = models.DateTimeField(auto_now_add=True)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    findings = models.JSONField(default=list, help_text="[{label, status: ok|not ok|unknown, detail, hint}]")

    class Meta:
        ordering = ["-requested_at"]

    def __str__(self) -> str:
        return f"test {self.pk} of {self.host}"


class Gpu(models.Model):
    """A card of a host with its last reading. The key is the uuid: an index changes between boots."""

    host = models.ForeignKey(Host, models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=96)
    index = models.PositiveIntegerField()
    name = models.CharField(max_length=128)
    bus_id = models.CharField(max_length=32, blank=True)
    total_mib = models.PositiveIntegerField(null=True)
    driver_version = models.CharField(max_length=32, blank=True)
    baseline_mib = models.PositiveIntegerField(null=True, help_text="memory.used in MiB when nobody holds the card")
    baseline_by = models.CharField(max_length=150, blank=True, help_text="who confirmed it; empty when learnt")
    display = models.BooleanField(default=False, help_text="A screen is driven by it.")

    used_mib = models.PositiveIntegerField(null=True)
    utilization_percent = models.PositiveSmallIntegerField(null=True)
    temperature_c = models.SmallIntegerField(null=True)
    power_w = models.FloatField(null=True)
    read_at = models.DateTimeField(null=True)
    source = models.CharField(max_length=64, blank=True)
    unread_reason = models.TextField(blank=True, help_text="why used_mib is unknown")
    present = models.BooleanField(default=True)

    class Meta:
        ordering = ["host_id", "index"]
        constraints = [models.UniqueConstraint(fields=["host", "uuid"], name="gpu_once_per_host")]

    def __str__(self) -> str:
        return f"{self.host} GPU {self.index}"

    @property
    def is_known_now(self) -> bool:
        """Its last reading may pass for the present: it is young, and nobody who reads the card is out of reach."""
        readers = (self.host, self.host.machine)
        if self.used_mib is None or any(one.reach == Host.Reach.UNREACHABLE for one in readers):
            return False
        return self.read_at is not None and timezone.now() - self.read_at <= STALE

    @property
    def ceiling_mib(self) -> int:
        """The highest baseline that is learnt without a person, in MiB."""
        return baseline.ceiling_mib(display=self.display)


class MemoryBlock(models.Model):
    """Sixty buckets of the memory in use of a host's cards, which the monitor writes (see ``hosts.history``)."""

    host = models.ForeignKey(Host, models.CASCADE, related_name="memory_blocks")
    step = models.PositiveSmallIntegerField(help_text="seconds of a bucket")
    start = models.BigIntegerField(help_text="seconds since 1970")
    cards = models.BinaryField(help_text="hosts.history.thinning.pack")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["host", "step", "start"], name="memory_block_once")]
        indexes = [models.Index(fields=["step", "start"], name="memory_block_age")]

    def __str__(self) -> str:
        return f"{self.host} from {self.start} in steps of {self.step} s"


class MonitorProcess(models.Model):
    """A monitor that works, so that several know into how many parts the fleet falls."""

    owner = models.CharField(max_length=64, unique=True)
    alive_until = models.DateTimeField()

    def __str__(self) -> str:
        return self.owner
