"""Middleware that manages Django's database connections in a worker."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from worker_sdk.middleware.base import Middleware

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context


class DjangoConnections(Middleware):
    """Treat database connections of Django around each attempt as Django does around each request. Close connections
    that are broken or older than `CONN_MAX_AGE`, and forget the queries that `DEBUG` collects.

    Call `django.setup()` before the worker starts.

    For example:

        worker = Worker(tasks=tasks, middleware=[DjangoConnections()])
    """

    def around_job(self, ctx: "Context") -> Iterator[None]:
        _refresh()
        try:
            yield
        finally:
            _close_old()

    async def around_async_job(self, ctx: "Context") -> AsyncIterator[None]:
        # Refresh the connections in the thread in which Django's async functions use them.
        from asgiref.sync import sync_to_async

        await sync_to_async(_refresh)()
        try:
            yield
        finally:
            await sync_to_async(_close_old)()


def _refresh() -> None:
    from django.db import close_old_connections, reset_queries

    reset_queries()
    close_old_connections()


def _close_old() -> None:
    from django.db import close_old_connections

    close_old_connections()
