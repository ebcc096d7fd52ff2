"""The application as Django knows it."""

import os
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.backends.signals import connection_created


class MicroblogConfig(AppConfig):
    """The application `examples.microblog`."""

    name = "examples.microblog"
    label = "microblog"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        if settings.HAS_OWN_POSTGRESQL:
            connection_created.connect(_take_own_precedence, dispatch_uid="precedence")


def _take_own_precedence(connection: Any, **_: Any) -> None:
    """Give the process in which PostgreSQL works for this connection the precedence of this process: where all share
    one machine, what the database does for jobs must not delay what it does for people."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    if nice > 0:
        os.setpriority(os.PRIO_PROCESS, connection.connection.info.backend_pid, nice)
