"""Addresses of the whole panel: what both apps share here, the rest in `<app>/urls.py`."""

from django.urls import URLPattern, URLResolver, include, path

from controlpanel.signin import LINK_ROUTE
from controlpanel.views import audit, health, people, signin

app_name = "controlpanel"
handler500 = "controlpanel.views.errors.failed"

_own = [
    path("audit/", audit.audit, name="audit"),
    path("audit/export.csv", audit.export, {"kind": "csv"}, name="audit_csv"),
    path("audit/export.json", audit.export, {"kind": "json"}, name="audit_json"),
    path("healthz", health.healthz, name="healthz"),
    path("login/", signin.log_in, name="login"),
    path("logout/", signin.log_out, name="logout"),
    path("people/", people.listed, name="people"),
    path("people/add/", people.add, name="people_add"),
    path("people/<int:pk>/link/", people.link, name="people_link"),
    path("people/<int:pk>/roles/", people.roles, name="people_roles"),
    path("people/<int:pk>/switch/", people.switch, name="people_switch"),
    path(LINK_ROUTE, signin.sign_in, name="sign_in"),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include((_own, "controlpanel"))),
    path("", include("hosts.urls")),
    path("", include("deployments.urls")),
]
