"""Addresses of the whole panel: what both apps share here, the rest in `<app>/urls.py`."""

from django.urls import URLPattern, URLResolver, include, path

from controlpanel.signin import LINK_ROUTE
from controlpanel.views import audit, health, signin

app_name = "controlpanel"
handler500 = "controlpanel.views.errors.failed"

_own = [
    path("audit/", audit.audit, name="audit"),
    path("audit/export.csv", audit.export, {"kind": "csv"}, name="audit_csv"),
    path("audit/export.json", audit.export, {"kind": "json"}, name="audit_json"),
    path("healthz", health.healthz, name="healthz"),
    path("login/", signin.log_in, name="login"),
    path("logout/", signin.log_out, name="logout"),
    path(LINK_ROUTE, signin.sign_in, name="sign_in"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include((_own, "controlpanel"))),
    path("", include("hosts.urls")),
    path("", include("deployments.urls")),
]
