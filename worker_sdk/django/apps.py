"""The application as Django knows it."""

from django.apps import AppConfig
from django.core import checks


class JqmasterConfig(AppConfig):
    """Registers `worker_sdk.django` and its system checks."""

    name = "worker_sdk.django"
    label = "jqmaster"
    verbose_name = "jqmaster"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from worker_sdk.django.backport_checks import problems_of_backport
        from worker_sdk.django.ui_checks import problems_of_ui

        checks.register(problems_of_backport)
        checks.register(problems_of_ui)
