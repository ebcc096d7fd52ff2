"""Middleware that manages SQLAlchemy's sessions and connections in a worker."""

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from worker_sdk.middleware.base import Middleware

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context


class SqlAlchemyConnections(Middleware):
    """Return connections of SQLAlchemy to their pool after each attempt, and close them when the worker has stopped.

    * `owners`: a `scoped_session` or `async_scoped_session` is removed after each attempt, which rolls back what was
      not committed. An `Engine` or `AsyncEngine` is disposed of at the end of the worker.

    A thread-local `scoped_session` is removed only after `def` handlers, because async handlers share one thread. Give
    async handlers an `async_scoped_session`, or a session as a dependency.

    For example:

        worker = Worker(tasks=tasks, middleware=[SqlAlchemyConnections(engine)])
    """

    def __init__(self, *owners: Any) -> None:
        unfit = [one for one in owners if not hasattr(one, "remove") and not hasattr(one, "dispose")]
        if unfit:
            raise TypeError(f"scoped sessions and engines are needed here, not {type(unfit[0]).__name__}")
        sessions = [one for one in owners if hasattr(one, "remove")]
        self._engines = [one for one in owners if not hasattr(one, "remove")]
        self._sessions = [one for one in sessions if not inspect.iscoroutinefunction(one.remove)]
        self._async_sessions = [one for one in sessions if inspect.iscoroutinefunction(one.remove)]

    async def on_stop(self) -> None:
        for engine in self._engines:
            disposing = engine.dispose()
            if inspect.isawaitable(disposing):
                await disposing

    def around_job(self, ctx: "Context") -> Iterator[None]:
        try:
            yield
        finally:
            for session in self._sessions:
                session.remove()

    async def around_async_job(self, ctx: "Context") -> AsyncIterator[None]:
        try:
            yield
        finally:
            for session in self._async_sessions:
                await session.remove()
            for session in self._sessions:
                # If the registry has no scope function, its sessions belong to threads and not to jobs.
                if hasattr(session.registry, "scopefunc"):
                    session.remove()
