"""Logs of jobs over HTTP. Workers send them, people read and follow them."""

import contextlib
from collections.abc import Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import query_error, whole_number
from jqmaster.api.jobs.handlers import COME_AGAIN, MAX_WAIT_S, wait_of
from jqmaster.api.schemas import LATEST_MS, TOKEN_PATTERN, instant_ms
from jqmaster.domain.content.job_content import GoneContent, JobContent
from jqmaster.domain.ids import ID_PATTERN
from jqmaster.domain.instant import iso_ms
from jqmaster.domain.logs.lines import LEVELS, RANK, LogLevel
from jqmaster.domain.logs.page import LinesPage, LogFilter, NumberedLine
from jqmaster.errors import (
    FieldError,
    NotFoundError,
    TooLargeError,
    UnparsableError,
    after_it_was_done,
    invalid,
)
from jqmaster.service.logs.logs import SentLine
from jqmaster.store.identity.audit import encode_entry

# Maximum number of lines, and of bytes, in one call. A worker with more lines makes several calls.
MAX_LINES: Final = 10_000
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_PAGE: Final = 5_000
DEFAULT_PAGE: Final = 1_000
# The highest sequence number of a line. The store counts in doubles, and the numbers continue over all attempts.
MAX_SEQ: Final = 2**47
MAX_TAIL: Final = 1_000_000
# Maximum number of invalid fields that an answer names.
MAX_TOLD: Final = 50
# A float below this number is a time in seconds (up to the year 5138). A larger float is a time in milliseconds
# (after 1973).
FIRST_MS: Final = 1e11

TextT = TypeVar("TextT")


class _Entry(msgspec.Struct, Generic[TextT], forbid_unknown_fields=True, gc=False):
    """A log entry with the fields of `schemas.LogLineRequest`."""

    seq: Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
    at: Annotated[int, msgspec.Meta(ge=0, le=LATEST_MS)]
    text: TextT
    level: LogLevel = LogLevel.INFO
    job_id: Annotated[str, msgspec.Meta(pattern=ID_PATTERN)] | None = None
    token: Annotated[str, msgspec.Meta(pattern=TOKEN_PATTERN)] | None = None


class _LogBody(msgspec.Struct, forbid_unknown_fields=True):
    entries: list[_Entry[str]]


class _AnyBody(msgspec.Struct, forbid_unknown_fields=True):
    entries: list[msgspec.Raw]


class _LooseEntry(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A log entry. Other code decodes its `at` and `text`."""

    seq: Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
    at: msgspec.Raw
    text: msgspec.Raw
    level: LogLevel = LogLevel.INFO
    job_id: Annotated[str, msgspec.Meta(pattern=ID_PATTERN)] | None = None
    token: Annotated[str, msgspec.Meta(pattern=TOKEN_PATTERN)] | None = None


class _Claim(msgspec.Struct, gc=False):
    """The claim that an invalid entry names."""

    job_id: Annotated[str, msgspec.Meta(pattern=ID_PATTERN)] | None = None
    token: Annotated[str, msgspec.Meta(pattern=TOKEN_PATTERN)] | None = None


# Every log line takes this path. So the code uses one typed decode in C instead of a model. If a call has an
# unusual entry, such as a binary text, all its entries are decoded one by one.
_USUAL: Final = msgspec.msgpack.Decoder(_LogBody)
_OTHER: Final = msgspec.msgpack.Decoder(_AnyBody)
_LOOSE: Final = msgspec.msgpack.Decoder(_LooseEntry)
_CLAIM: Final = msgspec.msgpack.Decoder(_Claim)
_BINARY: Final = msgspec.msgpack.Decoder(bytes)
_STR_HEADERS: Final = {0xD9: 2, 0xDA: 3, 0xDB: 5}


async def save(call: Call) -> Reply:
    entries, refused = _entries(await call.body(MAX_BYTES))
    worker_id = call.path["worker_id"]
    await call.services.owners.check(worker_id, call.known)
    claims = _by_claim(entries, refused)
    if not claims:
        raise invalid(refused)
    taken = await call.services.job_logs.save(worker_id, claims)
    answer: dict[str, Any] = {"accepted": taken.accepted, "dropped": taken.dropped, "stale": taken.stale}
    if refused:
        answer["refused"] = [{"loc": list(error.loc), "msg": error.msg} for error in refused[:MAX_TOLD]]
    return Reply(200, answer)


def _entries(data: bytes) -> tuple[Sequence[_Entry[str | bytes]], list[FieldError]]:
    """Return the entries, and the faults of the invalid entries. An invalid entry gets the number 0. If it names
    a claim, it keeps that claim."""
    refused: list[FieldError] = []
    try:
        entries: Sequence[_Entry[Any]] = _decoded(data, refused)
    except msgspec.ValidationError as exc:
        raise invalid([_field_error(exc)]) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise UnparsableError(f"the message is malformed: {exc}") from None
    if not entries:
        raise invalid([FieldError(("entries",), "must be a list with at least one member")])
    if len(entries) > MAX_LINES:
        raise TooLargeError(f"more than {MAX_LINES} entries", code="too_many_items")
    return entries, refused


def _decoded(data: bytes, refused: list[FieldError]) -> Sequence[_Entry[Any]]:
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        return _USUAL.decode(data).entries
    entries = []
    for index, raw in enumerate(_OTHER.decode(data).entries):
        try:
            entries.append(_entry(raw))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as exc:
            error = _field_error(exc)
            refused.append(FieldError(("entries", index, *error.loc), error.msg))
            entries.append(_claim_of(raw))
    return entries


def _entry(raw: msgspec.Raw) -> _Entry[str | bytes]:
    """Return an entry. Its text may be binary and may contain invalid UTF-8. Its time may have any accepted form."""
    sent = _LOOSE.decode(raw)
    text = bytes(sent.text)
    tag = text[0]
    if 0xA0 <= tag < 0xC0 or tag in _STR_HEADERS:
        text = text[_STR_HEADERS.get(tag, 1) :]
    else:
        try:
            text = _BINARY.decode(text)
        except msgspec.MsgspecError:
            raise msgspec.ValidationError("must be text or binary - at `$.text`") from None
    try:
        at_ms = _time_ms(msgspec.msgpack.decode(sent.at))
    except (ValueError, OverflowError, msgspec.MsgspecError):
        rule = (
            "must be Unix milliseconds, seconds as a float, or ISO 8601 with an offset, between 1970 and 2100"
        )
        raise msgspec.ValidationError(f"{rule} - at `$.at`") from None
    return _Entry(sent.seq, at_ms, text, sent.level, sent.job_id, sent.token)


def _time_ms(at: object) -> int:
    """Return the time of a line in Unix milliseconds. Raise ValueError or OverflowError."""
    if isinstance(at, bool) or not isinstance(at, int | float):
        return instant_ms(at)
    ms = int(at * 1000) if isinstance(at, float) and at < FIRST_MS else int(at)
    if not 0 <= ms <= LATEST_MS:
        raise ValueError("out of range")
    return ms


def _claim_of(raw: msgspec.Raw) -> _Entry[str | bytes]:
    """Return the placeholder of an invalid entry. It keeps the entry's claim, because later entries may belong to
    this claim."""
    try:
        claim = _CLAIM.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # If this entry's claim cannot be read, leave the claim empty. The claim of later entries is then unknown.
        claim = _Claim("", "")
    return _Entry(0, 0, "", job_id=claim.job_id, token=claim.token)


def _field_error(exc: Exception) -> FieldError:
    """Convert a decoder message: `Expected `int`, got `str` - at `$.entries[3].seq``."""
    rule, _, path = str(exc).partition(" - at `$")
    parts = [part.rstrip("]") for part in path.rstrip("`").replace("[", ".").split(".") if part]
    loc = tuple(int(part) if part.isdigit() else part for part in parts)
    return FieldError(loc, rule.replace("`", ""))


def _by_claim(
    entries: Sequence[_Entry[str | bytes]], refused: list[FieldError]
) -> list[tuple[str, str, list[SentLine]]]:
    """Return the lines of each claim, ordered by number and without duplicates. Add the faults of entries without
    a claim to `refused`."""
    found: dict[tuple[str, str], list[SentLine]] = {}
    lines: list[SentLine] | None = None
    job_id, token, last = "", "", 0
    is_ordered = True
    for index, entry in enumerate(entries):
        if entry.job_id is not None or entry.token is not None or lines is None:
            job_id = job_id if entry.job_id is None else entry.job_id
            token = token if entry.token is None else entry.token
            if not job_id or not token:
                lines = None
                if entry.seq:
                    field = "token" if job_id else "job_id"
                    refused.append(FieldError(("entries", index, field), "field required"))
                continue
            lines = found.get((job_id, token))
            if lines is None:
                lines = found[job_id, token] = []
            last = lines[-1].seq if lines else 0
        if not entry.seq:
            continue
        is_ordered = is_ordered and entry.seq > last
        last = entry.seq
        lines.append(SentLine(entry.seq, entry.at, RANK[entry.level], entry.text))
    if not is_ordered:
        found = {
            claim: sorted({line.seq: line for line in reversed(unordered)}.values())
            for claim, unordered in found.items()
        }
    return [(job_id, token, lines) for (job_id, token), lines in found.items() if lines]


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
            # The job may have been deleted, while its log may still be in the archive.
            found = await services.job_logs.gone_page(job_id, after, limit=limit, wanted=wanted, tail=tail)
            content = GoneContent(call.content, found.name or "")
    return Reply(200, page_view(found, content), () if has_place else COME_AGAIN)


async def erase(call: Call) -> Reply:
    job_id = call.path["job_id"]
    if await call.services.personal_data.erasure.erase_log(job_id, who=call.who):
        return Reply(204)
    await call.services.job_logs.erase_gone(job_id)
    with after_it_was_done():
        entry = encode_entry(who=call.who, action="job.erase_log", target=job_id, before=None, after=None)
        await call.services.audit_writer.write(entry)
    return Reply(204)


def filter_of(query: dict[str, str]) -> LogFilter:
    """Return the filter for the query parameters `level` and `attempt`. Raise InvalidError."""
    level = query.get("level", LogLevel.DEBUG)
    if level not in RANK:
        raise query_error("level", f"one of {', '.join(LEVELS)}")
    attempt = whole_number(query, "attempt", default=0, least=1, most=999_999_999)
    return LogFilter(RANK[LogLevel(level)], attempt or None)


def page_view(found: LinesPage, content: JobContent | GoneContent) -> dict[str, Any]:
    """Return a `LogPage`."""
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
    """Return a `LogEntry`."""
    level = LEVELS[entry.rank]
    return {
        "seq": entry.seq,
        "attempt": entry.attempt,
        "at": iso_ms(entry.at_ms),
        "level": str(level),
        "text": content.log_line(entry.text, is_error=entry.rank >= RANK[LogLevel.ERROR]),
    }
