"""The forms of a profile and its revisions: a command line as people paste it."""

from __future__ import annotations

from typing import Any

from django import forms

from controlpanel.forms import readable
from deployments.catalogue.ranges import out_of_range
from deployments.commandline import Command, parse, read_env, write, write_env
from deployments.commandline.ports import port_of
from deployments.engines.base import Engine
from deployments.engines.custom import CUSTOM
from deployments.engines.knobs import own_words
from deployments.engines.registry import ENGINES, engine_of, refuse_nothing_known
from deployments.engines.versions import stated
from deployments.forms import PLAIN
from deployments.models import Profile, Revision


class RevisionForm(forms.Form):
    """How a server is started. After ``is_valid`` ``launch`` holds what the services take."""

    command = forms.CharField(
        label="Command line",
        max_length=200_000,
        widget=forms.Textarea(attrs=PLAIN | {"rows": 9}),
        help_text="Paste it as you type it today, a docker run too. “export X=1”, “X=1” in front, “cd … &&”, nohup and "
        "an environment that is activated are understood.",
    )
    env = forms.CharField(
        label="Environment",
        required=False,
        max_length=100_000,
        widget=forms.Textarea(attrs=PLAIN | {"rows": 3}),
        help_text="One NAME=value a line, added to the login's own. Secrets are set on the deployment's page.",
    )
    workdir = forms.CharField(
        label="Working directory", required=False, max_length=500, widget=forms.TextInput(attrs=PLAIN)
    )
    port = forms.IntegerField(
        label="Port", required=False, min_value=1, max_value=65535,
        help_text="Only where the command line does not say it. Empty: as there, else the engine's usual one.",
    )  # fmt: skip
    ready_pattern = forms.CharField(
        label="Text in the log that says: ready",
        required=False,
        max_length=200,
        help_text="Needed for a custom command; the panel knows the others.",
        widget=forms.TextInput(attrs=PLAIN),
    )
    engine_versions = forms.CharField(
        label="Versions it is known to be good with",
        required=False,
        max_length=200,
        help_text="Of the engine, for example “0.5.10 or newer” as a model card asks for. A plan warns of any other.",
        widget=forms.TextInput(attrs=PLAIN),
    )
    notes = forms.CharField(
        label="What this revision is for", required=False, max_length=5000, widget=forms.Textarea(attrs={"rows": 2})
    )

    def __init__(self, *args: Any, engine: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._engine = engine
        self.launch: dict[str, Any] = {}
        self.remarks: tuple[str, ...] = ()
        """What was taken another way than it was written, in sentences; after ``is_valid``."""

    @staticmethod
    def from_revision(revision: Revision) -> dict[str, Any]:
        """Initial values that say what ``revision`` says; the port only where the command does not."""
        engine = ENGINES.get(revision.profile.engine, CUSTOM)
        return {
            "command": write(Command(revision.argv, {}, "", revision.container)),
            "env": write_env(revision.env),
            "workdir": revision.workdir,
            "port": None if _says_port(revision, engine) else revision.port,
            "ready_pattern": revision.ready_pattern,
            "engine_versions": revision.engine_versions,
        }

    def clean_env(self) -> dict[str, str]:
        """The environment's lines as a mapping."""
        try:
            return read_env(self.cleaned_data["env"])
        except ValueError as problem:
            raise forms.ValidationError(str(problem)) from problem

    def clean_engine_versions(self) -> str:
        """Versions that can be compared later."""
        text = " ".join(self.cleaned_data["engine_versions"].split())
        try:
            stated(text)
        except ValueError as problem:
            raise forms.ValidationError(str(problem)) from problem
        return text

    def clean(self) -> dict[str, Any]:
        """Read the command line; it may bring environment, directory and port along."""
        cleaned = super().clean() or self.cleaned_data
        if "command" not in cleaned or "env" not in cleaned:
            return cleaned
        try:
            command = parse(cleaned["command"])
            engine = ENGINES[self.engine_for(command)]
            refuse_nothing_known(command, engine)
            port = cleaned.get("port") or port_of(command, engine)
            _refuse_out_of_range(engine, command)
        except ValueError as problem:
            self.add_error("command", str(problem))
            return cleaned
        self.remarks = (*command.notes, *_another_engine(command, engine))
        self.launch = {
            "argv": command.argv,
            "env": command.env | cleaned["env"],
            "workdir": cleaned.get("workdir") or command.workdir,
            "container": dict(command.container),
            "port": port,
            "ready_pattern": cleaned.get("ready_pattern", ""),
            "engine_versions": cleaned.get("engine_versions", ""),
            "notes": cleaned.get("notes", "").replace("\r\n", "\n"),
        }
        if not engine.ready and not cleaned.get("ready_pattern", "").strip():
            words = "How to tell that this server is ready is not known. Give a text that its log shows then."
            self.add_error("ready_pattern", words)
        return cleaned

    def engine_for(self, command: Command) -> str:
        """The key of the engine that the command is for."""
        return self._engine


def _refuse_out_of_range(engine: Engine, command: Command) -> None:
    """Raises ValueError with a sentence for each number that the engine cannot start with."""
    begin = own_words(engine, command.argv, in_image=bool(command.container))
    words = [] if begin is None else command.argv[begin:]
    found = [f"{flag} {problem}." for flag, problem in out_of_range(engine.key, words)]
    if found:
        raise ValueError(" ".join([*found, "Correct the value."]))


def _says_port(revision: Revision, engine: Engine) -> bool:
    """Without the field it would be the same port."""
    try:
        return port_of(revision.command, engine) == revision.port
    except ValueError:
        return False


def _another_engine(command: Command, engine: Engine) -> list[str]:
    """A sentence where the command looks like the server of another engine than the profile's."""
    found = engine_of(command)
    if found is None or found is engine:
        return []
    return [
        f"The command starts {found.label}, but the profile is for {engine.label}: the panel will look for the ready "
        f"line and the metrics of {engine.label}."
    ]


def free_name(name: str) -> str:
    """The name of a profile that is not there yet. Raises ValidationError."""
    name = readable(name)
    if Profile.objects.filter(name=name).exists():
        raise forms.ValidationError(f"There is already a profile named {name}: choose another name.")
    return name


class ProfileForm(RevisionForm):
    """A new profile with its first revision."""

    name = forms.CharField(label="Name", max_length=64, widget=forms.TextInput(attrs=PLAIN | {"autofocus": True}))
    engine = forms.ChoiceField(label="Engine", required=False)
    description = forms.CharField(label="What it serves", required=False, max_length=2000)
    field_order = ["name", "engine", "description"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["engine"]
        assert isinstance(field, forms.ChoiceField)
        known = [(key, engine.label) for key, engine in ENGINES.items()]
        field.choices = [("", "The one that the command line starts"), *known]

    def clean_name(self) -> str:
        """A name that is free."""
        return free_name(self.cleaned_data["name"])

    def engine_for(self, command: Command) -> str:
        """The one that was chosen, else the one that the command starts, which is then chosen in the form."""
        found = engine_of(command)
        if not self.cleaned_data.get("engine"):
            self.cleaned_data["engine"] = found.key if found else CUSTOM.key
            self.data = dict(self.data.items()) | {"engine": self.cleaned_data["engine"]}
        chosen: str = self.cleaned_data["engine"]
        return chosen
