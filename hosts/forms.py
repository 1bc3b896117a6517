"""The forms of the host pages."""

from __future__ import annotations

from typing import Any

from django import forms

from controlpanel.forms import PlainIntegerField, readable
from hosts.history.showing import SPANS, Window, spans
from hosts.models import Host


class HostForm(forms.ModelForm):
    """Where a host is and how the panel gets in. Which fields count depends on the transport."""

    class Meta:
        model = Host
        fields = [
            "name", "transport", "address", "port", "user", "via", "vmid", "key_source", "key_path", "sudo",
            "look_only",
        ]  # fmt: skip
        field_classes = {"port": PlainIntegerField, "vmid": PlainIntegerField}
        error_messages = {"name": {"unique": "There is already a host of this name: choose another name."}}
        labels = {
            "transport": "How the panel reaches it",
            "via": "Reached through",
            "vmid": "Container id",
            "key_source": "Key to sign in with",
            "key_path": "Path of the key file",
            "sudo": "Use sudo where root is needed",
            "look_only": "Look only",
        }
        help_texts = {
            "name": "The name on every page, for example gpu-box-1.",
            "address": "A host name or an IP address.",
            "user": "root sees every process that holds a card; with another login tick “use sudo” below.",
            "vmid": "The number that `pct list` shows on the Proxmox host.",
            "key_path": "A private key on the panel's own machine, readable by the panel's user.",
            "sudo": "For a login that is not root (on this machine: the panel's own user). What needs root then runs "
            "as sudo -n, without a password.",
            "look_only": "Show everything, change nothing: no restart, start or stop on this host.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        others = Host.objects.filter(transport=Host.TransportKind.SSH).exclude(pk=self.instance.pk)
        via = self.fields["via"]
        assert isinstance(via, forms.ModelChoiceField)
        via.queryset = others
        via.empty_label = "nothing: directly"
        self.fields["port"].required = False
        self.fields["name"].widget.attrs["autofocus"] = True
        for name in ("name", "address", "user", "key_path"):
            self.fields[name].widget.attrs |= {"autocapitalize": "off", "spellcheck": "false"}

    def clean_name(self) -> str:
        """A name that reads as it is."""
        return readable(self.cleaned_data["name"])

    def clean_port(self) -> int:
        """An empty port is the usual one; a container or this machine has none."""
        port = self.cleaned_data.get("port")
        return 22 if port is None else port

    def clean(self) -> dict[str, Any]:
        """Forget what was typed into fields that the transport does not use."""
        found = super().clean() or self.cleaned_data
        transport = found.get("transport")
        if transport != Host.TransportKind.SSH:
            found |= {"address": "", "key_source": Host.KeySource.PANEL, "key_path": ""}
        if transport == Host.TransportKind.PCT:
            found["sudo"] = False  # it is entered as root; how, is set at its Proxmox host
        else:
            found["vmid"] = None
        if transport == Host.TransportKind.LOCAL:
            found["via"] = None
        return found


class TrustForm(forms.Form):
    """What the person read on the host's own screen, to be compared with what the connection offered."""

    fingerprint = forms.CharField(
        label="Fingerprint that the host itself shows",
        help_text="Paste the whole line or the part that begins with SHA256:.",
        max_length=300,
        strip=True,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "placeholder": "SHA256:…"}),
    )

    def clean_fingerprint(self) -> str:
        """The fingerprint alone, when the whole line that ssh-keygen prints was pasted."""
        typed: str = self.cleaned_data["fingerprint"]
        return next((word for word in typed.split() if word.startswith("SHA256:")), typed)


class BaselineForm(forms.Form):
    """The memory in use of a card that nobody holds, when it is too much to be believed without a person."""

    mib = PlainIntegerField(label="Memory in use when nobody holds the card", min_value=0, max_value=1_000_000)
    confirmed_mib = PlainIntegerField(required=False)
    """The number that the person was shown and has confirmed."""


class MaintenanceForm(forms.Form):
    """Why a host is left alone."""

    reason = forms.CharField(
        label="Why, and until when",
        help_text="Everybody sees it on the pages.",
        max_length=200,
        error_messages={"required": "Say why, so that the others know: for example “new driver, until Friday”."},
    )

    def clean_reason(self) -> str:
        """As it reads."""
        return readable(self.cleaned_data["reason"])


class MemoryForm(forms.Form):
    """Which time the curve of the memory shows: a span that ends now, or a piece of it that somebody has marked."""

    span = forms.ChoiceField(choices=[(name, name) for name in SPANS])
    since = forms.IntegerField(required=False, min_value=0)
    until = forms.IntegerField(required=False, min_value=0)

    def window(self, now: int) -> Window:
        """What was asked for, in seconds since 1970: nothing of the future, nothing before the longest span."""
        lengths = {name: seconds for name, (_, seconds) in spans().items()}
        until = min(self.cleaned_data["until"] or now, now)
        earliest = now - max(lengths.values())
        since = max(self.cleaned_data["since"] or now - lengths[self.cleaned_data["span"]], earliest)
        return Window(min(since, until - 1), until)
