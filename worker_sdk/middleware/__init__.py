"""Middleware that comes with the SDK. Each module imports its third-party package only when it is used."""

from typing import TYPE_CHECKING, Final

from worker_sdk.loading import lazy_names

if TYPE_CHECKING:
    from worker_sdk.middleware.django import DjangoConnections
    from worker_sdk.middleware.errors import ErrorHook
    from worker_sdk.middleware.logs import JobContextFilter, JobLogs, JsonFormatter
    from worker_sdk.middleware.sentry import Sentry
    from worker_sdk.middleware.sqlalchemy import SqlAlchemyConnections

__all__ = [
    "DjangoConnections",
    "ErrorHook",
    "JobContextFilter",
    "JobLogs",
    "JsonFormatter",
    "Sentry",
    "SqlAlchemyConnections",
]

# Import these modules only when a name is used: every worker imports the base class, which must not import third-party
# packages.
_MODULES: Final = {
    "DjangoConnections": "worker_sdk.middleware.django",
    "ErrorHook": "worker_sdk.middleware.errors",
    "JobContextFilter": "worker_sdk.middleware.logs",
    "JobLogs": "worker_sdk.middleware.logs",
    "JsonFormatter": "worker_sdk.middleware.logs",
    "Sentry": "worker_sdk.middleware.sentry",
    "SqlAlchemyConnections": "worker_sdk.middleware.sqlalchemy",
}

__getattr__ = lazy_names(__name__, _MODULES)
