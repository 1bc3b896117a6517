"""The project itself as a Django app: who signs in, who may do what, and what was done."""

from django.apps import AppConfig


class ControlpanelConfig(AppConfig):
    name = "controlpanel"
    verbose_name = "Control panel"
