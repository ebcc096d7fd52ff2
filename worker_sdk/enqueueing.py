"""Middleware that surrounds calls that enqueue."""

import copy
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from worker_sdk.errors import EnqueueRefused
from worker_sdk.generators import YieldContext, checked_generator

JobT = TypeVar("JobT", bound=dict[str, Any])

logger = logging.getLogger(__name__)


class EnqueueMiddleware:
    """The part of `Middleware` that pushers use.

    For example:

        class Tagged(Middleware):
            def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
                job["tags"] = [*job.get("tags", ()), "web"]
                yield
    """

    def __repr__(self) -> str:
        return f"<middleware {type(self).__name__}>"

    def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
        """Surround the enqueueing of a job. Write this method as a generator that yields once. The call to the master
        runs at the `yield`.

        * `job`: the map that is sent, as `make_job` returns it. Change it before the `yield`.

        An exception before the `yield` refuses the job, and nothing is sent. `enqueue` raises this exception, and
        `enqueue_many` raises `EnqueueRefused` from it. If the call fails, the `yield` raises the error of the call. An
        exception after the `yield` is only logged, because the job is already enqueued.

        The generator runs in the thread of the caller, so it must not block in an event loop.
        """
        yield


class EnqueueChain:
    """The generators of several middleware around a job, the first one outermost."""

    def __init__(self, middleware: Iterable[EnqueueMiddleware]) -> None:
        self._calls = [
            (checked_generator(one, "around_enqueue"), f"{type(one).__name__}.around_enqueue")
            for one in middleware
        ]

    def open(self, job: JobT) -> "tuple[JobT, OpenJob]":
        """Run the generators up to their `yield`. Return the job to send, and the open generators. If a middleware
        refuses the job, raise its exception."""
        # Do not change the caller's own map: the caller may enqueue it again.
        job = copy.copy(job)
        for field in ("headers", "tags", "retry"):
            if field in job:
                job[field] = copy.copy(job[field])
        opened: list[YieldContext] = []
        try:
            for call, what in self._calls:
                around = YieldContext(call(job), what)
                around.enter()
                opened.append(around)
            if not isinstance(job.get("id"), str) or not isinstance(job.get("name"), str):
                raise TypeError("a middleware removed the id or the name of a job")
        except BaseException as exc:
            OpenJob(job, opened).close(exc)
            raise
        return job, OpenJob(job, opened)

    def open_of_many(self, job: JobT) -> "tuple[JobT, OpenJob]":
        """Do what `open` does, for one of several jobs. If any exception refuses the job, raise EnqueueRefused."""
        try:
            return self.open(job)
        except EnqueueRefused:
            raise
        except Exception as exc:
            raise EnqueueRefused(f"job {job.get('id')}: {type(exc).__name__}: {exc}") from exc


class OpenJob:
    """The generators around a job that is being sent."""

    __slots__ = ("_job", "_opened")

    def __init__(self, job: dict[str, Any], opened: list[YieldContext]) -> None:
        self._job = job
        self._opened = opened

    def close(self, exc: BaseException | None) -> None:
        """Run the generators to their end, the innermost first. Their exceptions are only logged. `exc`: the error of
        the call, if it failed."""
        while self._opened:
            around = self._opened.pop()
            try:
                around.leave(exc)
            except Exception:
                logger.exception(
                    "%s: the code after its yield failed, for job %s", around.what, self._job.get("id")
                )


@contextmanager
def ending(opened: Iterable[OpenJob]) -> Iterator[None]:
    """Surround a call that sends jobs. At the end of the call, read `opened` and close these generators."""
    try:
        yield
    except BaseException as exc:
        for one in opened:
            one.close(exc)
        raise
    for one in opened:
        one.close(None)


@contextmanager
def around_one(chain: EnqueueChain | None, job: JobT) -> Iterator[JobT]:
    """Surround the enqueueing of a job. Yield the job to send."""
    if chain is None:
        yield job
        return
    job, opened = chain.open(job)
    with ending([opened]):
        yield job


@contextmanager
def around_all(chain: EnqueueChain | None, jobs: Iterable[JobT]) -> Iterator[list[JobT]]:
    """Surround the enqueueing of several jobs. Yield the jobs to send. Raise EnqueueRefused if a job is refused."""
    sent: list[JobT] = []
    all_opened: list[OpenJob] = []
    with ending(all_opened):
        for job in jobs:
            if chain is not None:
                job, opened = chain.open_of_many(job)
                all_opened.append(opened)
            sent.append(job)
        yield sent


def chain_of(middleware: Iterable[EnqueueMiddleware]) -> EnqueueChain | None:
    """Return the chain of the middleware that surrounds calls. Return None if no middleware does."""
    surrounding = [
        one for one in middleware if type(one).around_enqueue is not EnqueueMiddleware.around_enqueue
    ]
    return EnqueueChain(surrounding) if surrounding else None


def checked_middleware(middleware: Iterable[Any]) -> tuple[Any, ...]:
    """Return the middleware as a tuple. Raise TypeError for an item of another type."""
    if isinstance(middleware, EnqueueMiddleware | type):
        raise TypeError("middleware must be a list of instances")
    found = tuple(middleware)
    for one in found:
        if isinstance(one, type):
            raise TypeError(f"middleware takes instances: write {one.__name__}(), not {one.__name__}")
        if not isinstance(one, EnqueueMiddleware):
            raise TypeError(f"middleware: {type(one).__name__} is not a subclass of Middleware")
    return found
