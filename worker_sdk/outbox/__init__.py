"""Enqueue jobs inside a transaction of the application's own database.

`worker_sdk.outbox.sqlalchemy` has the outbox for SQLAlchemy, and `worker_sdk.django` has the outbox for Django.
"""

from typing import TYPE_CHECKING, Final

from worker_sdk.loading import lazy_names

if TYPE_CHECKING:
    from worker_sdk.outbox.base import Outbox
    from worker_sdk.outbox.in_worker import OutboxRelay
    from worker_sdk.outbox.relay import AsyncRelay, Relay
    from worker_sdk.outbox.rows import OutboxStats

__all__ = ["AsyncRelay", "Outbox", "OutboxRelay", "OutboxStats", "Relay"]

_MODULES: Final = {
    "AsyncRelay": "worker_sdk.outbox.relay",
    "Outbox": "worker_sdk.outbox.base",
    "OutboxRelay": "worker_sdk.outbox.in_worker",
    "OutboxStats": "worker_sdk.outbox.rows",
    "Relay": "worker_sdk.outbox.relay",
}

__getattr__ = lazy_names(__name__, _MODULES)
