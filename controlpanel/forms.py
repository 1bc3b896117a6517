"""The forms of signing in, and what all forms check alike."""

import re
from typing import Any

from django import forms
from django.contrib.auth import password_validation
from django.contrib.auth.models import User
from django.contrib.auth.validators import ASCIIUsernameValidator

PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)


def readable(name: str) -> str:
    """Return a name as it is. Raises ValidationError where letters do not show, so that two could look alike."""
    if not name.isprintable():
        raise forms.ValidationError("The name holds letters that do not show (a line break, a mark of direction …).")
    return name


class PlainIntegerField(forms.IntegerField):
    """A whole number as digits 0 to 9, with a minus at most: what Python would take besides (٦٤, 1_0, 64.0, +64) is
    refused, for whoever reads it may mean something else."""

    def to_python(self, value: Any) -> int | None:
        """Raises ValidationError for anything else."""
        if isinstance(value, str) and value.strip() and not PLAIN_NUMBER.fullmatch(value.strip(" ")):
            raise forms.ValidationError("Write a whole number with the digits 0 to 9 only, as in 64.", code="invalid")
        number: int | None = super().to_python(value)
        return number


class SignInForm(forms.Form):
    """User name and password; whether they are right is the view's question."""

    user_name = forms.CharField(
        label="User name",
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autofocus": True, "class": "form-control"}),
    )
    password = forms.CharField(
        label="Password",
        max_length=512,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "class": "form-control"}),
    )


class ChoosePasswordForm(forms.Form):
    """Name and password of the first administrator, or the new password of `user`, whose name then stays."""

    user_name = forms.CharField(
        label="User name",
        max_length=150,
        validators=[ASCIIUsernameValidator()],
        widget=forms.TextInput(attrs={"autocomplete": "username", "class": "form-control"}),
    )
    password = forms.CharField(
        label="Password",
        max_length=512,
        strip=False,
        help_text="Ten characters or more.",
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "form-control"}),
    )
    password_again = forms.CharField(
        label="Password again",
        max_length=512,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "class": "form-control"}),
    )

    def __init__(self, *args: Any, user: User | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._user = user
        if user is not None:
            del self.fields["user_name"]

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        password = cleaned.get("password")
        if not password:
            return cleaned
        if password != cleaned.get("password_again"):
            self.add_error("password_again", "The two passwords differ.")
        person = self._user or User(username=cleaned.get("user_name") or "")
        try:
            password_validation.validate_password(password, person)
        except forms.ValidationError as problem:
            self.add_error("password", problem)
        return cleaned
