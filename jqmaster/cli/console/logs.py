"""Log lines of a master: one event, one line, for people or for programs; nothing secret, nothing that acts."""

import functools
import logging
import re
from collections.abc import Iterable, MutableMapping
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote, urlsplit

from jqmaster.cli.console.output import inert
from jqmaster.log_context import REQUEST

if TYPE_CHECKING:
    from jqmaster.config import Settings

Event = MutableMapping[str, Any]

REDACTED: Final = "[redacted]"
# Shorter ones would black out ordinary words.
LEAST_SECRET: Final = 6

_HIDDEN: Final = (
    # Fields of a request; their values end where the line or the quotes around them do.
    (re.compile(r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-csrf-token|x-jq-signature)"
                r"(['\"]?\s*[:=,]\s*b?['\"]?)[^'\"\r\n]+"), rf"\1\2{REDACTED}"),
    (re.compile(r"(?i)\b(bearer)\s+[^\s'\",;]+"), rf"\1 {REDACTED}"),
    (re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:)[^/\s]+@"), rf"\1{REDACTED}@"),
    (re.compile(r"\bjqm_[\w-]+"), f"jqm_{REDACTED}"),
    (re.compile(r"(?i)\b(password|passwd|passphrase|secret(?:_key)?|signing_key|api_key|csrf_token|token)"
                r"(['\"]?\s*[:=]\s*b?['\"]?)[^\s'\",;)}\]]+"), rf"\1\2{REDACTED}"),
)  # fmt: skip
# In `job %s: …` the first argument is a job ID. Programs find the named IDs as fields.
_NAMED: Final = re.compile(r"(job|worker|master|constraint|setting)s? (?=%s)", re.IGNORECASE)
_PLACE: Final = re.compile(r"%%|%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
_FIELDS: Final = {"job": "job_id", "worker": "worker_id", "master": "master_id"}


def set_up(
    level: str, log_format: Literal["console", "json"] = "console", *, secrets: Iterable[str] = ()
) -> None:
    """Everything that is logged in this process goes to its standard error, whoever logs it. `secrets` never do."""
    import structlog

    handler = logging.StreamHandler()
    handler.setFormatter(formatter(log_format, secrets))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def formatter(log_format: Literal["console", "json"], secrets: Iterable[str] = ()) -> logging.Formatter:
    """Format records of the standard library and of structlog alike."""
    import structlog

    known = tuple(sorted({s for s in secrets if len(s) >= LEAST_SECRET}, key=len, reverse=True))
    is_json = log_format == "json"
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[_add_named],
        processors=[
            _add_request,
            _add_origin,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            functools.partial(_made_harmless, known, keeps_lines=is_json),
            structlog.processors.JSONRenderer() if is_json else _line,
        ],
        pass_foreign_args=True,
    )


def secrets_of(settings: "Settings") -> list[str]:
    """Return the secrets of the configuration, which must not be logged."""
    found = [token.get_secret_value().rpartition(":")[2] for token in settings.tokens]
    if settings.sentinel_password:
        found.append(settings.sentinel_password.get_secret_value())
    if settings.redis_url:
        for endpoint in settings.redis_url.get_secret_value().split(","):
            password = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}").password
            found += [password, unquote(password)] if password else []
    return found


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    for pattern, replacement in _HIDDEN:
        text = pattern.sub(replacement, text)
    return text


def _add_request(_: Any, __: str, event: Event) -> Event:
    if (request := REQUEST.get()) is not None:
        event["request_id"] = request.id
        for field in ("job_id", "worker_id"):
            if field in request.path:
                event.setdefault(field, request.path[field])
    return event


@functools.lru_cache(maxsize=512)
def _fields_of(template: str) -> tuple[tuple[str, int], ...]:
    """Return which argument of a message is an ID, and of what."""
    starts = [match.start() for match in _PLACE.finditer(template) if match[0] != "%%"]
    places = {start: n for n, start in enumerate(starts)}
    found: dict[str, int] = {}
    for match in _NAMED.finditer(template):
        kind = match[1].lower()
        if match.end() in places:
            found.setdefault(_FIELDS.get(kind, kind), places[match.end()])
    return tuple(found.items())


def _add_named(_: Any, __: str, event: Event) -> Event:
    record, args = event["_record"], event.pop("positional_args", None)
    if isinstance(record.msg, str) and isinstance(args, tuple) and args:
        for field, n in _fields_of(record.msg):
            if n < len(args):
                event[field] = str(args[n])
    return event


def _add_origin(_: Any, __: str, event: Event) -> Event:
    record = event["_record"]
    event["level"], event["logger"] = record.levelname.lower(), record.name
    return event


def _made_harmless(secrets: tuple[str, ...], _: Any, __: str, event: Event, *, keeps_lines: bool) -> Event:
    for key, value in event.items():
        if isinstance(value, bool | int | float) or value is None:
            continue
        text = inert(redacted(str(value), secrets))
        # Whatever comes from outside must not begin a line of its own; tracebacks, which are ours, may.
        event[key] = text if keeps_lines or key == "exception" else text.replace("\n", "\\n")
    return event


def _line(_: Any, __: str, event: Event) -> str:
    at, level, logger, text = (event.pop(key) for key in ("at", "level", "logger", "event"))
    trace = event.pop("exception", None)
    # Values that the message itself contains are not repeated.
    more = "".join(f" {key}={value}" for key, value in event.items() if str(value) not in text)
    line = f"{at} {level.upper()} {logger}: {text}{more}"
    return f"{line}\n{trace}" if trace else line
