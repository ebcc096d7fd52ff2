"""Middleware that comes with the SDK. Each imports its third-party package only when it is used."""

from typing import TYPE_CHECKING, Any, Final

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

# Every worker imports the base class, which should not import any of these.
_MODULES: Final = {
    "DjangoConnections": "worker_sdk.middleware.django",
    "ErrorHook": "worker_sdk.middleware.errors",
    "JobContextFilter": "worker_sdk.middleware.logs",
    "JobLogs": "worker_sdk.middleware.logs",
    "JsonFormatter": "worker_sdk.middleware.logs",
    "Sentry": "worker_sdk.middleware.sentry",
    "SqlAlchemyConnections": "worker_sdk.middleware.sqlalchemy",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'worker_sdk.middleware' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
