"""Send the lines that a handler writes, in any way, to the log of its job."""

import codecs
import logging
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, Final, Protocol
from weakref import WeakSet

from worker_sdk import forked

# The maximum length of a line that masters accept by default.
MAX_LINE_CHARS: Final = 16_000
# Output without line feeds is split into lines of this length.
MAX_LINE_BYTES: Final = 64 * 1024


class LogLines(Protocol):
    """The receiver of the lines of one job. It may be called from any thread."""

    def write(self, at_s: float, level: str, text: str) -> None:
        """Add a line, or the lines of one message. `at_s`: the time, in seconds since 1970. This does not block."""
        ...


class RunLog(LogLines, Protocol):
    """The log of one run, in the process of the worker."""

    def flush(self) -> Future[None] | None:
        """Send the first lines of this run at once; call it from the event loop.

        Return a future that is done when a master has answered, or None if there are no lines, or if masters already
        know the run."""
        ...


# The log of the job that the current code runs in. None outside of jobs, or if the worker sends no logs.
running_log: Final[ContextVar[LogLines | None]] = ContextVar("running_log", default=None)


_LEVELS: Final = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
    logging.CRITICAL: "critical",
}


def level_of(number: int) -> str:
    """Return a master's name for the level of a log record."""
    return _LEVELS.get(number) or _LEVELS[min(max(number // 10 * 10, logging.DEBUG), logging.CRITICAL)]


def cut(text: str) -> str:
    """Return the text. If it is too long, cut it, and add a note at the end."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    return f"{text[:MAX_LINE_CHARS]} … (cut: {len(text):,} characters)"


_FORMATTER: Final = logging.Formatter()


def text_of(record: logging.LogRecord, *, has_name: bool) -> str:
    """Return the text of a log record, with its traceback."""
    text = record.getMessage()
    if has_name:
        text = f"{record.name}: {text}"
    if record.exc_info and not record.exc_text:
        record.exc_text = _FORMATTER.formatException(record.exc_info)
    if record.exc_text:
        text = f"{text}\n{record.exc_text}"
    if record.stack_info:
        text = f"{text}\n{record.stack_info}"
    return text


class JobLogHandler(logging.Handler):
    """Adds records that are written while a job runs to the log of that job."""

    def createLock(self) -> None:  # noqa: N802 - the name of the standard library
        # Do not create a lock, because the receivers of lines have their own.
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        # Do not call the base class: its filters and lock cost time, and all records of the process come here.
        log = running_log.get()
        if log is not None and "is_of_job" not in record.__dict__:
            try:
                log.write(record.created, level_of(record.levelno), text_of(record, has_name=True))
            except Exception:
                self.handleError(record)
        return True


class JobLogger(logging.Logger):
    """A logger of one job. Records of all levels go to the log of the job, and records that `parent` accepts also go to
    `parent`, under its name."""

    parent: logging.Logger

    def __init__(self, parent: logging.Logger, log: LogLines) -> None:
        super().__init__(parent.name, logging.DEBUG)
        self.parent = parent
        self.lines = log

    def callHandlers(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of the standard library
        try:
            text = text_of(record, has_name=False)
        except Exception as exc:
            # Write the unformatted text if formatting fails: as with other loggers, the error must not fail the job.
            text = _unformatted(record.msg, record.args, exc)
        self.lines.write(record.created, level_of(record.levelno), text)
        record.is_of_job = True
        if self.parent.isEnabledFor(record.levelno):
            self.parent.handle(record)

    def needs_record(self, level: int) -> bool:
        """Return whether a line of this level needs a log record, because other loggers or handlers may receive it."""
        return bool(
            self.filters
            or self.disabled
            or not self.isEnabledFor(level)
            or self.parent.isEnabledFor(level)
            or logging.getLogRecordFactory() is not logging.LogRecord
        )


class JobLoggerAdapter(logging.LoggerAdapter[logging.Logger]):
    """The logger that handlers use. A line that only goes to the log of the job is written without a log record,
    because the record would cost more than the rest of the call."""

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log a line, as `logging.Logger.log` does."""
        logger = self.logger
        if kwargs or type(logger) is not JobLogger or logger.needs_record(level):
            # Skip one more stack frame, so that the record names the caller's line and not a line of this method.
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            super().log(level, msg, *args, **kwargs)
            return
        try:
            text = _message(msg, args)
        except Exception as exc:
            text = _unformatted(msg, args, exc)
        logger.lines.write(time.time(), level_of(level), text)


def _message(msg: object, args: tuple[Any, ...]) -> str:
    """Return the text of a line, as `LogRecord.getMessage` does."""
    if not args:
        return str(msg)
    if len(args) == 1 and args[0] and isinstance(args[0], Mapping):
        return str(msg) % args[0]
    return str(msg) % args


def _unformatted(msg: object, args: object, exc: Exception) -> str:
    return f"{msg!r} % {args!r}: {exc}"


class _Installed:
    """The single log handler of this process, and the workers that use it."""

    def __init__(self) -> None:
        self.handler = JobLogHandler()
        self.users = WeakSet[object]()
        self.lock = threading.Lock()
        forked.renew_in_child(self)

    def renew(self) -> None:
        """Make a new lock in a forked process: the heartbeats of the parent may have held the old lock."""
        self.lock = threading.Lock()


_installed: Final = _Installed()


def install(user: object) -> None:
    """From now on, add each record of any logger to the log of the job that writes it. `user`: the worker."""
    with _installed.lock:
        _installed.users.add(user)
        logging.getLogger().addHandler(_installed.handler)


def reinstall() -> None:
    """Install the handler again if somebody removed it: configuring logging removes all handlers of the root logger."""
    with _installed.lock:
        if _installed.users:
            logging.getLogger().addHandler(_installed.handler)


def uninstall(user: object) -> None:
    """Undo `install` for a worker, and remove the handler after the last worker. This may be called twice for a
    worker."""
    with _installed.lock:
        _installed.users.discard(user)
        if not _installed.users:
            logging.getLogger().removeHandler(_installed.handler)


class OutputLines:
    """Splits an output into lines. A progress bar, which overwrites its line again and again, becomes one line with its
    last state."""

    def __init__(self, log: LogLines, level: str) -> None:
        self._log = log
        self._level = level
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    def feed(self, piece: bytes) -> None:
        """Process a piece of the output."""
        *lines, rest = (self._rest + self._decoder.decode(piece)).split("\n")
        now_s = time.time()
        for line in lines:
            self._write(now_s, line)
        if "\r" in rest[:-1]:
            rest = rest[rest.rindex("\r", 0, -1) + 1 :]
        while len(rest) > MAX_LINE_BYTES:
            self._write(now_s, rest[:MAX_LINE_BYTES])
            rest = rest[MAX_LINE_BYTES:]
        self._rest = rest

    def end(self) -> None:
        """Write the remaining text as the last line."""
        rest, self._rest = self._rest + self._decoder.decode(b"", final=True), ""
        if rest:
            self._write(time.time(), rest)

    def _write(self, at_s: float, line: str) -> None:
        line = line.removesuffix("\r")
        self._log.write(at_s, self._level, line[line.rfind("\r") + 1 :])


STDOUT_LEVEL: Final = "info"
STDERR_LEVEL: Final = "warning"


def is_output_logged() -> bool:
    """Return whether some log handler writes to an output of this process."""
    streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    return any(getattr(handler, "stream", None) in streams for handler in logging.getLogger().handlers)
