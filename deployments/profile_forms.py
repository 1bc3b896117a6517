"""The forms that bring profiles from elsewhere: a clone, a file."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from django import forms

from controlpanel.forms import readable
from deployments.forms import PLAIN
from deployments.models import Profile
from deployments.profilefile import LARGEST, ProfileFile, read_file
from deployments.revision_forms import free_name


class CloneForm(forms.Form):
    """The name of a profile that begins as another one is."""

    name = forms.CharField(label="Name", max_length=64, widget=forms.TextInput(attrs=PLAIN | {"autofocus": True}))
    description = forms.CharField(label="What it serves", required=False, max_length=2000)
    notes = forms.CharField(
        label="What revision 1 is for", required=False, max_length=5000, widget=forms.Textarea(attrs={"rows": 2})
    )

    def clean_name(self) -> str:
        """A name that is free."""
        return free_name(self.cleaned_data["name"])

    def clean_notes(self) -> str:
        """With plain line ends, as a file has them."""
        notes: str = self.cleaned_data["notes"]
        return notes.replace("\r\n", "\n")


class ImportForm(forms.Form):
    """A profile's file, pasted or chosen. After ``is_valid`` ``file`` and ``into`` say what would be made.

    ``shown`` is the mark of what the person was shown: only that is imported.
    """

    upload = forms.FileField(label="File", required=False, max_length=200)
    text = forms.CharField(
        label="Text of the file",
        required=False,
        max_length=LARGEST,
        strip=False,
        widget=forms.Textarea(attrs=PLAIN | {"rows": 14}),
        help_text="Choose a file, or paste here what is in it.",
    )
    name = forms.CharField(
        label="Name here",
        required=False,
        max_length=64,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Empty: the name that the file says.",
    )
    add = forms.BooleanField(label="Add its revisions to the profile of that name", required=False)
    shown = forms.CharField(required=False, max_length=64, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.file: ProfileFile | None = None
        self.title = ""
        """The name that the profile would have."""
        self.there: Profile | None = None

    def clean(self) -> dict[str, Any]:
        """Read the file; what was uploaded goes into the text, so that it stays in the form."""
        cleaned = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        upload = cleaned.get("upload")
        try:
            text = _text_of(upload) if upload else cleaned["text"]
            self.data = dict(self.data.items()) | {"text": text}
            cleaned["text"] = text
            if not text.strip():
                raise ValueError("Choose a file, or paste its text.")
            self.file = read_file(text)
        except ValueError as problem:
            self.add_error("text", str(problem))
            return cleaned
        self.title = readable(cleaned["name"].strip() or self.file.name)
        self.there = Profile.objects.filter(name=self.title).first()
        return cleaned

    @property
    def into(self) -> Profile | None:
        """The profile that gets the revisions, if the person said so."""
        return self.there if self.cleaned_data.get("add") else None

    @property
    def mark(self) -> str:
        """What the person is shown, so that nothing else is made."""
        return sha256(f"{self.title}\0{self.cleaned_data['text']}".replace("\r\n", "\n").encode()).hexdigest()


def _text_of(upload: Any) -> str:
    """The text of an uploaded file. Raises ValueError with a sentence."""
    if upload.size > 4 * LARGEST:
        raise ValueError(f"The file is too large: {upload.size:,} bytes, and at most {LARGEST:,} characters are read.")
    try:
        return str(upload.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError("The file is not text in UTF-8. Choose the YAML that was exported.") from error
