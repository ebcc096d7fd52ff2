"""Logs of jobs over HTTP: sent by workers, read and followed by people."""

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import query_error, whole_number
from jqmaster.api.jobs.handlers import COME_AGAIN, MAX_WAIT_S, wait_of
from jqmaster.api.schemas import LATEST_MS, TOKEN_PATTERN
from jqmaster.domain.content.job_content import GoneContent, JobContent
from jqmaster.domain.ids import ID_PATTERN
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.logs.lines import LEVELS, RANK, LogLevel
from jqmaster.domain.logs.page import LinesPage, LogFilter, NumberedLine
from jqmaster.errors import (
    FieldError,
    InvalidError,
    NotFoundError,
    TooLargeError,
    UnparsableError,
    after_it_was_done,
    invalid,
)
from jqmaster.service.logs.logs import SentLine
from jqmaster.store.identity.audit import encode_entry

# The limits of one call. A worker with more lines makes several calls.
MAX_LINES: Final = 10_000
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_PAGE: Final = 5_000
DEFAULT_PAGE: Final = 1_000
# The store counts in doubles, and the numbers run on over all attempts.
MAX_SEQ: Final = 2**47
MAX_TAIL: Final = 1_000_000

TextT = TypeVar("TextT")


class _Entry(msgspec.Struct, Generic[TextT], forbid_unknown_fields=True, gc=False):
    """The same as `schemas.LogLineRequest`, which describes the fields."""

    seq: Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
    at: Annotated[int, msgspec.Meta(ge=0, le=LATEST_MS)]
    text: TextT
    level: LogLevel = LogLevel.INFO
    job_id: Annotated[str, msgspec.Meta(pattern=ID_PATTERN)] | None = None
    token: Annotated[str, msgspec.Meta(pattern=TOKEN_PATTERN)] | None = None


class _LogBody(msgspec.Struct, Generic[TextT], forbid_unknown_fields=True):
    entries: list[_Entry[TextT]]


# Every line of every job takes this path, so it is one typed decode in C instead of a model. If a text is binary or
# not UTF-8, the texts are decoded one by one.
_USUAL: Final = msgspec.msgpack.Decoder(_LogBody[str])
_OTHER: Final = msgspec.msgpack.Decoder(_LogBody[msgspec.Raw])
_BINARY: Final = msgspec.msgpack.Decoder(bytes)
_STR_HEADERS: Final = {0xD9: 2, 0xDA: 3, 0xDB: 5}


async def save(call: Call) -> Reply:
    entries = _entries(await call.body(MAX_BYTES))
    worker_id = call.path["worker_id"]
    await call.services.owners.check(worker_id, call.known)
    taken = await call.services.job_logs.save(worker_id, _by_claim(entries))
    return Reply(200, {"accepted": taken.accepted, "dropped": taken.dropped, "stale": taken.stale})


def _entries(data: bytes) -> Sequence[_Entry[str | bytes]]:
    try:
        entries: Sequence[_Entry[Any]] = _decoded(data)
    except msgspec.ValidationError as exc:
        raise _refused(str(exc)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise UnparsableError(f"the message is malformed: {exc}") from None
    if not entries:
        raise invalid([FieldError(("entries",), "must be a list that is not empty")])
    if len(entries) > MAX_LINES:
        raise TooLargeError(f"more than {MAX_LINES} entries", code="too_many_items")
    return entries


def _decoded(data: bytes) -> Sequence[_Entry[Any]]:
    try:
        return _USUAL.decode(data).entries
    except (msgspec.MsgspecError, UnicodeDecodeError):
        entries: Sequence[_Entry[Any]] = _OTHER.decode(data).entries
    for index, entry in enumerate(entries):
        raw = bytes(entry.text)
        tag = raw[0]
        if 0xA0 <= tag < 0xC0 or tag in _STR_HEADERS:
            entry.text = raw[_STR_HEADERS.get(tag, 1) :]
        else:
            try:
                entry.text = _BINARY.decode(raw)
            except msgspec.MsgspecError:
                raise invalid([FieldError(("entries", index, "text"), "must be text or binary")]) from None
    return entries


def _refused(text: str) -> InvalidError:
    """Convert a decoder message to a problem: `Expected `int`, got `str` - at `$.entries[3].seq``."""
    rule, _, path = text.partition(" - at `$")
    parts = [part.rstrip("]") for part in path.rstrip("`").replace("[", ".").split(".") if part]
    loc = tuple(int(part) if part.isdigit() else part for part in parts)
    return invalid([FieldError(loc, rule.replace("`", ""))])


def _by_claim(entries: Sequence[_Entry[str | bytes]]) -> list[tuple[str, str, list[SentLine]]]:
    """Return the lines of each claim, ordered by number and without duplicate numbers."""
    found: dict[tuple[str, str], list[SentLine]] = {}
    lines: list[SentLine] | None = None
    job_id, token, last = "", "", 0
    is_ordered = True
    for index, entry in enumerate(entries):
        if entry.job_id is not None or entry.token is not None or lines is None:
            if not (entry.job_id or job_id) or not (entry.token or token):
                field = "token" if entry.job_id else "job_id"
                raise invalid([FieldError(("entries", index, field), "field required")])
            job_id, token = entry.job_id or job_id, entry.token or token
            lines = found.setdefault((job_id, token), [])
            last = lines[-1].seq if lines else 0
        is_ordered = is_ordered and entry.seq > last
        last = entry.seq
        lines.append(SentLine(entry.seq, entry.at, RANK[entry.level], entry.text))
    if not is_ordered:
        found = {
            claim: sorted({line.seq: line for line in reversed(unordered)}.values())
            for claim, unordered in found.items()
        }
    return [(job_id, token, lines) for (job_id, token), lines in found.items()]


async def page(call: Call) -> Reply:
    query = call.query("after", "wait", "level", "attempt", "limit", "tail")
    after = whole_number(query, "after", default=0, least=0, most=999_999_999)
    limit = whole_number(query, "limit", default=DEFAULT_PAGE, least=1, most=MAX_PAGE)
    tail = whole_number(query, "tail", default=0, least=1, most=MAX_TAIL) or None
    wait_s, wanted = wait_of(query), filter_of(query)
    job_id, services = call.path["job_id"], call.services
    with services.waiting.take() if wait_s > 0 else contextlib.nullcontext(True) as has_place:
        content: JobContent | GoneContent
        try:
            content = JobContent(call.content, (await services.jobs.view(job_id)).job)
            found = await services.job_logs.page(
                job_id,
                after,
                limit=limit,
                wanted=wanted,
                tail=tail,
                wait_s=min(wait_s, MAX_WAIT_S) if has_place else 0.0,
            )
        except NotFoundError:
            # The job may have been deleted just now.
            found = await services.job_logs.gone_page(job_id, after, limit=limit, wanted=wanted, tail=tail)
            content = GoneContent(call.content, found.name or "")
    return Reply(200, page_view(found, content), () if has_place else COME_AGAIN)


async def erase(call: Call) -> Reply:
    job_id = call.path["job_id"]
    await call.services.job_logs.erase_gone(job_id)
    with after_it_was_done():
        entry = encode_entry(who=call.who, action="job.erase_log", target=job_id, before=None, after=None)
        await call.services.audit_writer.write(entry)
    return Reply(204)


def filter_of(query: dict[str, str]) -> LogFilter:
    """Return the filter that the query parameters `level` and `attempt` are. Raise InvalidError."""
    level = query.get("level", LogLevel.DEBUG)
    if level not in RANK:
        raise query_error("level", f"one of {', '.join(LEVELS)}")
    attempt = whole_number(query, "attempt", default=0, least=1, most=999_999_999)
    return LogFilter(RANK[LogLevel(level)], attempt or None)


def page_view(found: LinesPage, content: JobContent | GoneContent) -> dict[str, Any]:
    """`LinesPage`."""
    return {
        "state": None if found.state is None else str(found.state),
        "entries": [entry_view(entry, content) for entry in found.entries],
        "next": found.next,
        "last": found.facts.last,
        "dropped": found.facts.dropped,
        "is_last": found.is_last,
        "is_archived": found.is_archived,
        "log_ref": found.facts.ref,
    }


def entry_view(entry: NumberedLine, content: JobContent | GoneContent) -> dict[str, Any]:
    """`NumberedLine`."""
    level = LEVELS[entry.rank]
    return {
        "seq": entry.seq,
        "attempt": entry.attempt,
        "at": iso_ms(entry.at_ms),
        "level": str(level),
        "text": content.log_line(entry.text, is_error=entry.rank >= RANK[LogLevel.ERROR]),
    }
