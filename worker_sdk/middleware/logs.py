"""Middleware and formatters that add the running job to log records."""

import json
import logging
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from worker_sdk.middleware.base import Middleware
from worker_sdk.worker.context import running_job

if TYPE_CHECKING:
    from worker_sdk.worker.context import Context

logger = logging.getLogger("worker_sdk.job")


class JobLogs(Middleware):
    """Add the running job to every log record, also to records of libraries: `job_id`, `job_name` and `attempt`. Log
    the end of each attempt with its duration.

    * `handlers`: the log handlers; their records get the job. Default: the handlers that the root logger has when the
      worker starts.
    * `level`: level of the record at the end of a successful attempt. The worker itself logs failures.

    If structlog is installed, its context variables get the same fields.

    For example:

        worker = Worker(tasks=tasks, middleware=[JobLogs()])
    """

    def __init__(
        self, handlers: Iterable[logging.Handler] | None = None, *, level: int = logging.INFO
    ) -> None:
        self._handlers = None if handlers is None else list(handlers)
        self._level = level
        self._filter = JobContextFilter()
        self._filtered: list[logging.Handler] = []

    def on_start(self) -> None:
        handlers = logging.getLogger().handlers if self._handlers is None else self._handlers
        self._filtered = list(handlers)
        for handler in self._filtered:
            handler.addFilter(self._filter)

    def on_stop(self) -> None:
        while self._filtered:
            self._filtered.pop().removeFilter(self._filter)

    def around_job(self, ctx: "Context") -> Iterator[None]:
        fields = _fields_of(ctx)
        unbind = _bind_structlog(fields)
        began_s = time.monotonic()
        try:
            yield
        finally:
            unbind()
        duration_s = round(time.monotonic() - began_s, 6)
        logger.log(
            self._level,
            "%s (job %s, attempt %d) ended after %.3f s",
            ctx.name,
            ctx.job_id,
            ctx.attempt,
            duration_s,
            extra={**fields, "duration_s": duration_s},
        )


class JobContextFilter(logging.Filter):
    """A filter for log handlers that gives records the attributes `job_id`, `job_name` and `attempt` of the running
    job. A format may always name them: outside of jobs, they have the value None.

    For example:

        log = logging.StreamHandler()
        log.addFilter(JobContextFilter())
        log.setFormatter(logging.Formatter("%(job_name)s %(job_id)s %(message)s"))
    """

    def __repr__(self) -> str:
        return "<JobContextFilter>"

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes if the record does not have them yet. Return True.

        * `record`: the record.

        For example:

            record = logging.makeLogRecord({})
            JobContextFilter().filter(record)
            print(record.job_id)
        """
        ctx = running_job.get()
        for field, value in (_NO_JOB if ctx is None else _fields_of(ctx)).items():
            if not hasattr(record, field):
                setattr(record, field, value)
        return True


class JsonFormatter(logging.Formatter):
    """Format log records as one line of JSON: `time`, `level`, `logger`, `message`, `exception`, and all attributes
    that were given as `extra`, including those of the job.

    For example:

        log = logging.StreamHandler()
        log.setFormatter(JsonFormatter())
    """

    def __repr__(self) -> str:
        return "<JsonFormatter>"

    def format(self, record: logging.LogRecord) -> str:
        """Return the line.

        * `record`: the record.

        For example:

            print(JsonFormatter().format(logging.makeLogRecord({"msg": "done"})))
        """
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        given = vars(record).items()
        fields |= {key: value for key, value in given if key not in _OF_RECORDS and value is not None}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


_NO_JOB: Final[dict[str, Any]] = {"job_id": None, "job_name": None, "attempt": None}
_OF_RECORDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _fields_of(ctx: "Context") -> dict[str, Any]:
    return {"job_id": ctx.job_id, "job_name": ctx.name, "attempt": ctx.attempt}


def _bind_structlog(fields: dict[str, Any]) -> Any:
    """Bind the fields in structlog, and return a function that unbinds them."""
    try:
        from structlog.contextvars import bind_contextvars, reset_contextvars
    except ImportError:
        return lambda: None
    marks = bind_contextvars(**fields)
    return lambda: reset_contextvars(**marks)
