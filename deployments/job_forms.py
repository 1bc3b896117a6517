"""The form by which a job is asked for."""

from __future__ import annotations

from typing import Any

from django import forms

from deployments.forms import RevisionChoice
from deployments.models import Profile, Revision


class JobForm(forms.Form):
    """What to launch, why, and the way back. ``request_key`` makes a double click one job."""

    which = forms.ChoiceField(
        required=False,
        # The choices are made of what runs: a server that has crashed meanwhile has no "same flags again".
        error_messages={
            "invalid_choice": "What runs or what is set has changed since this page was opened: choose again."
        },
    )
    other = RevisionChoice(queryset=Revision.objects.none(), required=False, label="Revision", empty_label="choose one")
    reason = forms.CharField(
        label="Why",
        max_length=2000,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="For the approver and the history.",
    )
    way_back = forms.BooleanField(
        label="If it fails, start again what was serving", required=False, initial=True,
        help_text="So that nobody has to be awake for a roll-back. Unticked, the job asks.",
    )  # fmt: skip
    request_key = forms.UUIDField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, options: dict[str, Revision], profile: Profile, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._options = options
        which, other = self.fields["which"], self.fields["other"]
        assert isinstance(which, forms.ChoiceField) and isinstance(other, forms.ModelChoiceField)
        which.choices = [(key, key) for key in [*options, "other"]]
        other.queryset = profile.revisions.select_related("profile")

    def clean(self) -> dict[str, Any]:
        """Find the revision that was meant."""
        cleaned = super().clean() or self.cleaned_data
        which = cleaned.get("which")
        cleaned["revision"] = self._options.get(which or "")
        if which == "other":
            cleaned["revision"] = cleaned.get("other")
            if cleaned["revision"] is None:
                self.add_error("other", "Choose the revision to launch.")
        return cleaned
