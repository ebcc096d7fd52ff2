"""Statistics over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, get_args

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.query import whole_number
from jqmaster.api.http.searches import search
from jqmaster.api.operations.stats_schemas import IgnoreRequest
from jqmaster.errors import FieldError, InvalidError, after_it_was_done
from jqmaster.service.operations.stats import Before, NameOrder, Span, failure_group_view

MAX_PAGE: Final = 500
PAGE: Final = 50
SPANS: Final[tuple[Span, ...]] = get_args(Span)
ORDERS: Final[tuple[NameOrder, ...]] = get_args(NameOrder)
PERIODS: Final[tuple[Before, ...]] = get_args(Before)
DEFAULT_SPAN: Final[Span] = "1h"
MAX_NAME_LENGTH: Final = 200
MAX_LABEL_KEY: Final = 64
MAX_LABEL_VALUE: Final = 200

T = TypeVar("T", bound=str)


async def now(call: Call) -> Reply:
    call.query()
    return Reply(200, await call.services.stats.now())


@search
async def history(call: Call) -> Reply:
    query = call.query("name", "span", "before")
    before = _one_of(query, "before", PERIODS, "1d") if "before" in query else None
    return Reply(200, await call.services.stats.history(_span(query), _text(query, "name"), before))


@search
async def list_names(call: Call) -> Reply:
    query = call.query("q", "span", "sort", "limit", "cursor")
    return Reply(
        200,
        await call.services.stats.names(
            _span(query),
            q=_text(query, "q") or "",
            sort=_one_of(query, "sort", ORDERS, "name"),
            limit=_limit(query),
            cursor=query.get("cursor"),
        ),
    )


async def get_name(call: Call) -> Reply:
    query = call.query("span")
    name = call.path["job_name"]
    contracts = await call.services.contracts.view(name)
    is_served = contracts.pop("is_served")
    return Reply(200, await call.services.stats.name(name, _span(query), is_served=is_served) | contracts)


async def demand(call: Call) -> Reply:
    query = call.query_lists("name", "label")
    for name in query["name"]:
        _text({"name": name}, "name")
    found = await call.services.demand.of(query["name"], _labels(query["label"]))
    return Reply(
        200,
        {
            "ready": found.ready,
            "blocked": found.blocked,
            "running": found.running,
            "slots": found.slots,
            "oldest_wait_s": found.oldest_wait_s,
            "demand": found.demand,
            "is_exact": found.is_exact,
        },
    )


async def remove_contracts(call: Call) -> Reply:
    await call.services.contracts.remove(call.path["job_name"], call.who)
    return Reply(204)


@search
async def list_failures(call: Call) -> Reply:
    query = call.query("name", "q", "version", "ignored", "resolved", "open", "assignee", "limit", "cursor")
    return Reply(
        200,
        await call.services.stats.failures(
            call.content,
            name=_text(query, "name"),
            q=_text(query, "q") or "",
            version=_text(query, "version"),
            is_ignored=_flag(query, "ignored"),
            is_resolved=_flag(query, "resolved"),
            is_open=_flag(query, "open"),
            assignee=_text(query, "assignee"),
            limit=_limit(query),
            cursor=query.get("cursor"),
        ),
    )


async def ignore_failure(call: Call) -> Reply:
    request = await call.read(IgnoreRequest)
    services = call.services
    shown = await services.failures.actions.ignore(
        call.path["group_id"],
        duration_s=request.duration_s,
        reason=request.reason,
        who=call.who,
        access=call.content,
    )
    with after_it_was_done():
        return Reply(200, failure_group_view(shown, await services.store_time_ms()))


async def unignore_failure(call: Call) -> Reply:
    services = call.services
    shown = await services.failures.actions.unignore(call.path["group_id"], who=call.who, access=call.content)
    with after_it_was_done():
        return Reply(200, failure_group_view(shown, await services.store_time_ms()))


def _span(query: Mapping[str, str]) -> Span:
    return _one_of(query, "span", SPANS, DEFAULT_SPAN)


def _flag(query: Mapping[str, str], field: str) -> bool | None:
    value = query.get(field)
    if value not in (None, "true", "false"):
        raise _refusal(field, "true or false")
    return None if value is None else value == "true"


def _limit(query: dict[str, str]) -> int:
    return whole_number(query, "limit", default=PAGE, least=1, most=MAX_PAGE)


def _one_of(query: Mapping[str, str], field: str, words: tuple[T, ...], default: T) -> T:
    if field not in query:
        return default
    found = next((word for word in words if word == query[field]), None)
    if found is None:
        raise _refusal(field, f"one of {', '.join(words)}")
    return found


def _text(query: Mapping[str, str], field: str) -> str | None:
    """Return the search text. Refuse text that neither a name nor a shown message can contain."""
    text = query.get(field)
    if text is not None and not (0 < len(text) <= MAX_NAME_LENGTH and text.isprintable()):
        raise _refusal(field, f"1 to {MAX_NAME_LENGTH} printable characters")
    return text


def _labels(texts: Sequence[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (equals and 0 < len(key) <= MAX_LABEL_KEY and len(value) <= MAX_LABEL_VALUE):
            raise _refusal(
                "label",
                (
                    f"KEY=VALUE, with a key of 1 to {MAX_LABEL_KEY} and a value of at most "
                    f"{MAX_LABEL_VALUE} characters"
                ),
            )
        if labels.setdefault(key, value) != value:
            raise _refusal(
                "label", (f"{key} cannot have two values, because a worker has only one value for each label")
            )
    return labels


def _refusal(field: str, rule: str) -> InvalidError:
    return InvalidError(f"{field}: {rule}", errors=[FieldError(("query", field), rule)])
