"""Format a master's log lines, one per event, for people or for programs. The lines contain no secrets and no
characters that control a terminal."""

import functools
import json
import logging
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote, urlsplit

from jqmaster.cli.console.output import escape_controls
from jqmaster.log_context import REQUEST
from worker_sdk.transport.console_log import console_handler

if TYPE_CHECKING:
    from jqmaster.config import Settings, StoreSettings

Event = dict[str, Any]
LogFormat = Literal["console", "json"]

REDACTED: Final = "[redacted]"
# Minimum length of a secret that is hidden in logs. A shorter secret could be part of ordinary words.
MIN_SECRET: Final = 6

_HIDDEN: Final = (
    # Patterns of request fields. A value extends to the end of the line or to the closing quote.
    (re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-csrf-token|x-jq-signature)"
                r"(['\"]?\s*[:=,]\s*b?['\"]?)[^'\"\r\n]+"), rf"\1\2{REDACTED}"),
    (re.compile(r"(?i)\b(bearer)\s+[^\s'\",;]+"), rf"\1 {REDACTED}"),
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:)[^/\s]+@"), rf"\1{REDACTED}@"),
    (re.compile(r"\bjqm_[\w-]+"), f"jqm_{REDACTED}"),
    (re.compile(r"(?i)\b(password|passwd|passphrase|secret(?:_key)?|signing_key|api_key|csrf_token|token)"
                r"(['\"]?\s*[:=]\s*b?['\"]?)[^\s'\",;)}\]]+"), rf"\1\2{REDACTED}"),
)  # fmt: skip
# Every text that matches a pattern contains one of these words in lower case.
_HINTS: Final = (
    "auth",
    "cookie",
    "csrf",
    "signature",
    "bearer",
    "://",
    "jqm_",
    "pass",
    "secret",
    "key",
    "token",
)
# Finds arguments that are IDs: in `job %s: …`, the first argument is a job ID. In output for programs, such IDs
# become fields.
_NAMED: Final = re.compile(r"(job|worker|master|constraint|setting)s? (?=%s)", re.IGNORECASE)
_PLACE: Final = re.compile(r"%%|%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
_FIELDS: Final = {"job": "job_id", "worker": "worker_id", "master": "master_id"}


def set_up(level: str, log_format: LogFormat = "console", *, secrets: Iterable[str] = ()) -> None:
    """Send all logs of this process to standard error. `secrets` are never logged."""
    handler = console_handler()
    handler.setFormatter(LineFormatter(log_format, secrets))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def route_structlog() -> None:
    """Pass structlog messages of other code to the standard library. Masters themselves do not use structlog."""
    import structlog

    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class LineFormatter(logging.Formatter):
    """Formats records of the standard library and of structlog in the same way."""

    def __init__(self, log_format: LogFormat, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = tuple(sorted({s for s in secrets if len(s) >= MIN_SECRET}, key=len, reverse=True))
        self._is_json = log_format == "json"

    def format(self, record: logging.LogRecord) -> str:
        event, exc_info = _event_of(record)
        _add_request(event)
        event["level"], event["logger"] = record.levelname.lower(), record.name
        if exc_info:
            event["exception"] = self.formatException(exc_info)
        _make_harmless(event, self._secrets, keeps_lines=self._is_json)
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        event["at"] = f"{at.removesuffix('+00:00')}Z"
        return json.dumps(event) if self._is_json else _line(event)


def _event_of(record: logging.LogRecord) -> tuple[Event, Any]:
    """Return a new event, and the exception that was logged with it."""
    if not isinstance(record.msg, dict):
        return {"event": record.getMessage(), **_named(record)}, record.exc_info
    event = dict(record.msg)  # structlog passes a dict as the message
    exc_info = event.pop("exc_info", None)
    if isinstance(exc_info, BaseException):
        exc_info = (type(exc_info), exc_info, exc_info.__traceback__)
    elif exc_info and not isinstance(exc_info, tuple):
        exc_info = sys.exc_info()
    return event, exc_info


def secrets_of(settings: "Settings") -> list[str]:
    """Return the secrets of the configuration, which must not be logged."""
    found = [token.get_secret_value().rpartition(":")[2] for token in settings.tokens]
    stores: list[Settings | StoreSettings] = [settings, *settings.stores.values()]
    for store in stores:
        if store.sentinel_password:
            found.append(store.sentinel_password.get_secret_value())
        if store.redis_url:
            for endpoint in store.redis_url.get_secret_value().split(","):
                password = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}").password
                found += [password, unquote(password)] if password else []
    return found


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    for pattern, replacement in _HIDDEN:
        text = pattern.sub(replacement, text)
    return text


def _add_request(event: Event) -> None:
    if (request := REQUEST.get()) is not None:
        event["request_id"] = request.id
        for field in ("job_id", "worker_id"):
            if field in request.path:
                event.setdefault(field, request.path[field])


@functools.lru_cache(maxsize=512)
def _fields_of(template: str) -> tuple[tuple[str, int], ...]:
    """Return the index of each argument that is an ID, with the name of its field."""
    starts = [match.start() for match in _PLACE.finditer(template) if match[0] != "%%"]
    places = {start: n for n, start in enumerate(starts)}
    found: dict[str, int] = {}
    for match in _NAMED.finditer(template):
        kind = match[1].lower()
        if match.end() in places:
            found.setdefault(_FIELDS.get(kind, kind), places[match.end()])
    return tuple(found.items())


def _named(record: logging.LogRecord) -> Event:
    """Return the IDs that a message names, by field."""
    if not isinstance(record.msg, str) or not isinstance(record.args, tuple):
        return {}
    return {field: str(record.args[n]) for field, n in _fields_of(record.msg) if n < len(record.args)}


def _make_harmless(event: Event, secrets: tuple[str, ...], *, keeps_lines: bool) -> None:
    for key, value in event.items():
        if isinstance(value, bool | int | float) or value is None:
            continue
        text = str(value)
        if _is_plain(text, secrets):
            event[key] = text
            continue
        text = escape_controls(redacted(text, secrets))
        # Escape line feeds, because text from outside must not start a new line. Tracebacks keep their line
        # feeds, because they come from this program.
        event[key] = text if keeps_lines or key == "exception" else text.replace("\n", "\\n")


def _is_plain(text: str, secrets: tuple[str, ...]) -> bool:
    """Return whether a text contains nothing to hide and no characters that control a terminal. Most texts pass
    this check, which is far faster than the patterns."""
    if not (text.isascii() and text.isprintable()):
        return False
    small = text.lower()
    return not any(hint in small for hint in _HINTS) and not any(secret in text for secret in secrets)


def _line(event: Event) -> str:
    at, level, logger, text = (event.pop(key) for key in ("at", "level", "logger", "event"))
    trace = event.pop("exception", None)
    # Leave out values that the message already contains.
    more = "".join(f" {key}={value}" for key, value in event.items() if str(value) not in text)
    line = f"{at} {level.upper()} {logger}: {text}{more}"
    return f"{line}\n{trace}" if trace else line
