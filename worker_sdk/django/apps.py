"""The application as Django knows it."""

from django.apps import AppConfig


class JqmasterConfig(AppConfig):
    """The application `worker_sdk.django`."""

    name = "worker_sdk.django"
    label = "jqmaster"
    verbose_name = "jqmaster"
    default_auto_field = "django.db.models.BigAutoField"
