"""The form of a deployment, and the choices that others share with it."""

from __future__ import annotations

import re
from typing import Any

from django import forms

from controlpanel.forms import PlainIntegerField, readable
from deployments.models import Deployment, Revision
from deployments.plan.ways import CHOICES, LABELS, By, Way
from hosts.models import Gpu, Host

PK = re.compile(r"[0-9]{1,18}", re.ASCII)
CO_TENANT = re.compile(r"[!-9;-~]+:[^:\s]+", re.ASCII)
"""user:program, the user in ASCII."""
PLAIN = {"autocapitalize": "off", "spellcheck": "false", "autocomplete": "off"}


NUMBERS = (
    "shared_need_mib", "tolerance_mib", "drain_seconds", "term_seconds", "kill_seconds", "memory_seconds",
    "stuck_seconds", "port_seconds", "ready_seconds", "approval_minutes", "crash_starts_per_hour",
)  # fmt: skip


class RevisionChoice(forms.ModelChoiceField):
    """Revisions named with their notes, so that a person can tell them apart."""

    def label_from_instance(self, obj: Any) -> str:
        """Profile, number and the beginning of the notes."""
        notes = obj.notes.splitlines()[0][:60] if obj.notes else ""
        return f"{obj}: {notes}" if notes else str(obj)


class DeploymentsChoice(forms.ModelMultipleChoiceField):
    """Deployments by number; one that no database can hold is as unknown as any other."""

    def clean(self, value: Any) -> Any:
        """Raises ValidationError for what is not the number of a deployment that is there."""
        if isinstance(value, list | tuple) and not all(PK.fullmatch(str(one)) for one in value):
            raise forms.ValidationError("One of these is no deployment. Choose them from the list.")
        return super().clean(value)


class DeploymentForm(forms.ModelForm):
    """A service: its recipe, place and policy. ``host`` and ``gpus`` are the placement."""

    host = forms.ModelChoiceField(label="Host", queryset=Host.objects.all(), empty_label="choose a host")
    gpus = forms.MultipleChoiceField(label="Cards", required=False)
    revision = RevisionChoice(
        label="Profile and revision",
        queryset=Revision.objects.select_related("profile").order_by("profile__name", "-number"),
        empty_label="choose a revision",
        help_text="What a start or restart launches. The port is the revision's.",
    )
    shares_with = DeploymentsChoice(
        label="Deployments that may hold the same cards", required=False, queryset=Deployment.objects.none()
    )
    co_tenants = forms.CharField(
        label="Other programs that may hold the same cards",
        required=False,
        max_length=1000,
        help_text="As user:program, separated by commas, for example root:Xorg. They are never stopped. Empty: none.",
        widget=forms.TextInput(attrs=PLAIN),
    )

    started_by = forms.ChoiceField(
        label="How its server is started",
        required=False,
        choices=[(str(by), LABELS[by]) for by in CHOICES],
        help_text="The plan of each job says which way is taken, and why.",
    )
    started_by_name = forms.CharField(
        label="Its name on the host",
        required=False,
        max_length=240,
        help_text="The unit, as in chat.service; the container, as in chat; of compose the project and the service, as "
        "in llm/chat.",
        widget=forms.TextInput(attrs=PLAIN),
    )

    class Meta:
        model = Deployment
        field_classes = dict.fromkeys(NUMBERS, PlainIntegerField)
        fields = [
            "name", "revision", "production", "requester_may_approve", "clean_start_by_itself", "kill_own_by_itself",
            "crash_starts_per_hour", "kill_from_node_by_itself", "co_tenants", "shared_need_mib", "tolerance_mib",
            "drain_seconds", "term_seconds", "kill_seconds", "memory_seconds", "stuck_seconds", "port_seconds",
            "ready_seconds", "approval_minutes",
        ]  # fmt: skip
        labels = {
            "production": "People depend on it (production)",
            "requester_may_approve": "Who asks for a job may approve it, if an approver",
            "clean_start_by_itself": "A start on clean cards needs no approver",
            "crash_starts_per_hour": "After a crash or a boot, start it again",
            "kill_own_by_itself": "After the time-out, kill this deployment's own processes without asking",
            "kill_from_node_by_itself": "In a container: then kill them from its node without asking",
            "shared_need_mib": "Memory needed on a shared card",
            "tolerance_mib": "Memory that may be left over",
            "drain_seconds": "For running requests",
            "term_seconds": "For the server to end",
            "kill_seconds": "For a kill to work",
            "memory_seconds": "For memory, usual",
            "stuck_seconds": "For memory, longest",
            "port_seconds": "For the port",
            "ready_seconds": "For the server to be ready",
            "approval_minutes": "For an approval",
        }
        help_texts = {
            "production": "Approving a stop or restart then asks for the deployment's name, typed.",
            "requester_may_approve": "Off: a second person must approve every job.",
            "clean_start_by_itself": "Nothing is stopped by it. When a card is not measured clean, or the plan warns "
            "of something that needs a person, an approver decides. Off: always.",
            "crash_starts_per_hour": "At most so often, on clean cards, and only while an approver allows it on the "
            "deployment's page. 0: it is left down.",
            "kill_own_by_itself": "Only processes recorded as this server's. Off: the job asks, naming each process.",
            "kill_from_node_by_itself": "The same processes, under their numbers on the node. Off: the job asks first.",
            "shared_need_mib": "Of each card that it shares, until a launch of the same revision was measured there. "
            "Empty: the job asks before the launch.",
            "tolerance_mib": "Above what the card has in use when nobody holds it. With more, it is not free. On a "
            "card that is shared, the memory needed decides instead.",
            "drain_seconds": "Before a stop. What still runs then is cut off by the stop. 0: do not wait.",
            "term_seconds": "After it was asked to end (SIGTERM). Then it is killed (SIGKILL), or the job asks first, "
            "as ticked above.",
            "kill_seconds": "After SIGKILL; in a container also after the one from its node. What lives then, only a "
            "reset of the card or a reboot ends: the job fails and says so.",
            "memory_seconds": "After a stop, until the cards are empty. If an old process lives then, or the cards "
            "cannot be read, a person decides.",
            "stuck_seconds": "While no process holds the memory in use: drivers may release late. Then a person "
            "decides.",
            "port_seconds": "After a stop, until the old server's port is free. Then a person decides.",
            "ready_seconds": "Then the job asks whether to wait longer; nothing is stopped by itself. Empty: twice "
            "what the last three starts took, and 30 min as long as there are none.",
            "approval_minutes": "Until the plan counts as too old: the job then ends, and nothing was touched.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        gpus = self.fields["gpus"]
        assert isinstance(gpus, forms.MultipleChoiceField)
        self.all_gpus = list(Gpu.objects.filter(present=True).select_related("host"))
        if (place := self.instance.place if self.instance.pk else None) is not None:
            known = {gpu.uuid for gpu in self.all_gpus}
            self.lost_gpus = [uuid for uuid in place.gpu_uuids if uuid not in known]
            self.initial.update(host=place.host_id, gpus=place.gpu_uuids)
        if self.instance.pk:
            self.initial["co_tenants"] = ", ".join(self.instance.co_tenants)
            way = Way.of(self.instance.started_by)
            self.initial.update(started_by=str(way.by), started_by_name=way.name)
            self.initial["shares_with"] = [other.pk for other in self.instance.shares_with.all()]
        shares_with = self.fields["shares_with"]
        assert isinstance(shares_with, forms.ModelMultipleChoiceField)
        shares_with.queryset = Deployment.objects.exclude(pk=self.instance.pk)
        gpus.choices = [(gpu.uuid, str(gpu)) for gpu in self.all_gpus]
        self.fields["crash_starts_per_hour"].required = False

    def clean_name(self) -> str:
        """A name that reads as it is."""
        return readable(self.cleaned_data["name"])

    def clean_shared_need_mib(self) -> int | None:
        """Nothing at all is no answer: a full card would do then."""
        need: int | None = self.cleaned_data["shared_need_mib"]
        if need is not None and need < 1:
            raise forms.ValidationError("Write at least 1 MiB, or leave it empty: the job then asks before the launch.")
        return need

    def clean_crash_starts_per_hour(self) -> int:
        """Nothing at all means: never."""
        return self.cleaned_data["crash_starts_per_hour"] or 0

    def clean_co_tenants(self) -> list[str]:
        """The programs as a list."""
        entries = [entry.strip() for entry in self.cleaned_data["co_tenants"].split(",") if entry.strip()]
        for entry in entries:
            if not CO_TENANT.fullmatch(entry) or not entry.isprintable() or len(entry.split()) != 1:
                raise forms.ValidationError(
                    f"“{entry}” is not user:program. Write who runs it and what it is called, as in alice:python3."
                )
        return list(dict.fromkeys(entries))

    def clean(self) -> dict[str, Any]:
        """Keep only cards of the chosen host and neighbours on its machine: others may still be ticked behind it."""
        cleaned = super().clean() or self.cleaned_data
        host = cleaned.get("host")
        own = {gpu.uuid for gpu in self.all_gpus if host and gpu.host_id == host.pk}
        # A node and its containers show the same cards: one may be ticked behind each of them.
        cleaned["gpus"] = list(dict.fromkeys(uuid for uuid in cleaned.get("gpus", []) if uuid in own))
        if host and "shares_with" in cleaned:
            cleaned["shares_with"] = [other for other in cleaned["shares_with"] if _same_machine(other, host)]
        if host and own and not cleaned["gpus"]:
            self.add_error("gpus", f"Tick the cards of {host} that the server uses.")
        self._set_way(cleaned)
        return cleaned

    def _set_way(self, cleaned: dict[str, Any]) -> None:
        """What was chosen, and the name for it, are one setting."""
        try:
            way = Way.named(By(cleaned.get("started_by") or ""), cleaned.get("started_by_name", "").strip())
        except ValueError as problem:
            self.add_error("started_by_name", str(problem))
            return
        self.instance.started_by = str(way)


def _same_machine(other: Deployment, host: Host) -> bool:
    place = other.placements.select_related("host__via").first()
    return place is not None and place.host.machine == host.machine
