"""Django's configuration of this application."""

from django.apps import AppConfig


class MicroblogConfig(AppConfig):
    """The application `examples.microblog`."""

    name = "examples.microblog"
    label = "microblog"
    default_auto_field = "django.db.models.BigAutoField"
