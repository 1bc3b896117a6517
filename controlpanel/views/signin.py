"""Signing in and out."""

from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from controlpanel import audit, signin
from controlpanel.forms import ChoosePasswordForm, SignInForm

# One sentence for a wrong name, a wrong password, a switched-off user and too many tries: it tells a guesser
# nothing.
REFUSAL = (
    "This user name and password do not match, or there were too many tries. "
    "Check both; after five wrong tries wait 15 minutes."
)
BACKEND = "django.contrib.auth.backends.ModelBackend"


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def log_in(request: HttpRequest) -> HttpResponse:
    """Ask for name and password; a right pair begins a new session."""
    if request.user.is_authenticated:
        return redirect(_next(request))
    form = SignInForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        user = _checked(request, form.cleaned_data["user_name"], password=form.cleaned_data["password"])
        if user is not None:
            with transaction.atomic():
                login(request, user, backend=BACKEND)
                audit.record("signed in", actor=user, target=user, detail={}, address=audit.address_of(request))
            return redirect(_next(request))
        form.add_error(None, REFUSAL)
    context = {"form": form, "next": request.GET.get("next") or request.POST.get("next", "")}
    context["nobody_yet"] = signin.nobody_is_known()
    return render(request, "registration/login.html", context)


def _checked(request: HttpRequest, user_name: str, *, password: str) -> User | None:
    """Return the person whose name and password these are; while the brake is on, the password is not even
    looked at.
    """
    address = audit.address_of(request)
    if signin.is_braked(user_name=user_name, address=address):
        return None
    user = authenticate(request, username=user_name, password=password)
    if not isinstance(user, User):
        signin.note_failure(user_name=user_name, address=address)
        return None
    signin.forget_failures(user_name=user_name, address=address)
    return user


def _next(request: HttpRequest) -> str:
    """Return where the person wanted to go, if that is a page of this panel."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    safe = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if safe else resolve_url("/")


@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    """End the session."""
    if isinstance(request.user, User):
        with transaction.atomic():
            audit.record(
                "signed out",
                actor=request.user,
                target=request.user,
                detail={},
                address=audit.address_of(request),
            )
            logout(request)
    return redirect("controlpanel:login")


@login_not_required
@never_cache
@sensitive_post_parameters("password", "password_again")
@require_http_methods(["GET", "POST"])
def sign_in(request: HttpRequest, token: str) -> HttpResponse:
    """The page behind a one-time link. Only a POST with a good form uses the link up: chat programs fetch
    links too.
    """
    try:
        link = signin.find_link(token)
        form = ChoosePasswordForm(request.POST or None, user=link.user)
        if request.method == "POST" and form.is_valid():
            return _let_in(request, token, form=form)
    except signin.LinkSpent:
        return render(request, "registration/link_spent.html", status=410)
    return render(request, "registration/sign_in.html", {"form": form, "person": link.user})


def _let_in(request: HttpRequest, token: str, *, form: ChoosePasswordForm) -> HttpResponse:
    try:
        user = signin.use_link(
            token,
            user_name=form.cleaned_data.get("user_name", ""),
            password=form.cleaned_data["password"],
            address=audit.address_of(request),
        )
    except IntegrityError:
        form.add_error("user_name", "This user name is taken.")
        return render(request, "registration/sign_in.html", {"form": form, "person": None})
    login(request, user, backend=BACKEND)
    return redirect("/")
