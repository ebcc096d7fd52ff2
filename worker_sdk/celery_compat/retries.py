"""The retries of Celery tasks, and the exceptions of this SDK that express them to a master."""

import random
from collections.abc import Mapping
from typing import Any, Final

from worker_sdk.celery_compat.exceptions import Reject
from worker_sdk.errors import Challenged, Defer, Discard, Fail, NotReady, Retry
from worker_sdk.worker.outcomes import UnfitArgumentError

# Exceptions that tell the worker what to do with the job; they pass through unchanged.
_ORDERS: Final = (Retry, Fail, Discard, Defer, Challenged, NotReady, UnfitArgumentError)


class Retries:
    """The options of a task about retries.

    * `most`: maximum number of retries. None: no limit.
    * `delay_s`: seconds before a retry, if the task has no backoff.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        by_autoretry = options.get("retry_kwargs") or {}
        self.most: int | None = by_autoretry.get("max_retries", options.get("max_retries", 3))
        self.delay_s = float(by_autoretry.get("countdown", options.get("default_retry_delay", 180)))
        self._retried = _classes(options.get("autoretry_for"))
        self._not_retried = _classes(options.get("dont_autoretry_for"))
        self._backoff = options.get("retry_backoff", False)
        self._backoff_max_s = float(options.get("retry_backoff_max", 600))
        self._has_jitter = bool(options.get("retry_jitter", True))

    def order_of(self, exc: Exception, retries: int) -> Exception:
        """Convert an exception to an exception that the worker understands. Celery retries only exceptions that are
        declared for it.

        * `exc`: the exception of the function.
        * `retries`: number of retries so far.
        """
        if isinstance(exc, _ORDERS):
            return exc
        if isinstance(exc, Reject):
            reason = str(exc.reason or "rejected by the task")
            return Defer(1.0, reason) if exc.requeue else Fail(reason)
        is_retried = isinstance(exc, self._retried) and not isinstance(exc, self._not_retried)
        text = f"{type(exc).__name__}: {exc}"
        if not is_retried or (self.most is not None and retries >= self.most):
            order = Fail(text)
            order.__cause__ = exc
            return order
        return Retry(self._wait_s(retries), text)

    def _wait_s(self, retries: int) -> float:
        if not self._backoff:
            return self.delay_s
        factor = 1.0 if self._backoff is True else float(self._backoff)
        wait_s = min(factor * 2**retries, self._backoff_max_s)
        return random.uniform(0, wait_s) if self._has_jitter else wait_s  # noqa: S311 - no secret


def _classes(given: Any) -> tuple[type[BaseException], ...]:
    return tuple(given) if isinstance(given, list | tuple | set) else () if given is None else (given,)
