"""Handlers of the search for data about a person, and of the erasure of values."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.searches import search
from jqmaster.api.jobs.handlers import get
from jqmaster.api.personal_data.schemas import EraseRequest, PersonalDataRequest
from jqmaster.domain.matching.checks import MatcherError
from jqmaster.domain.matching.paths import Path, parse_path
from jqmaster.domain.personal_data.erasure import PATH_ROOTS, ROOTS, WHOLE_ROOTS
from jqmaster.domain.personal_data.identifiers import Identifiers
from jqmaster.errors import FieldError, after_it_was_done, invalid
from jqmaster.service.personal_data.search import FoundObject, SearchOutcome
from jqmaster.store.identity.audit import encode_entry

NOT_SEARCHED: Final = (
    "the archive of logs, and logs of deleted jobs",
    "backups, exports and other copies of the store",
    "the audit log, which contains reasons and changed documents",
    "definitions, callbacks of batches, calendars, targets, and constraints with the values of their keys",
    "arguments of deliveries (webhooks and mails)",
    "other namespaces",
    "logs of masters and workers, outside systems, and data that pushers keep",
)


@search
async def find(call: Call) -> Reply:
    request = await call.read(PersonalDataRequest)
    if request.cursor is None:
        # Write only the number of texts into the audit log. The texts themselves are personal data, and nobody
        # could erase them from this log.
        after = {"texts": len(request.texts), "reason": request.reason}
        entry = encode_entry(who=call.who, action="personal_data.search", target="", before=None, after=after)
        await call.services.audit_writer.write(entry)
    part = await call.services.personal_data.search.part(
        Identifiers(request.texts), call.content, request.cursor
    )
    return Reply(200, _part_view(part, call.services.settings.redact_paths))


async def erase(call: Call) -> Reply:
    request = await call.read(EraseRequest)
    job_id = call.path["job_id"]
    await call.services.personal_data.erasure.erase_values(job_id, _paths(request.fields), who=call.who)
    with after_it_was_done():
        return await get(call)


def _paths(texts: list[str]) -> list[Path]:
    """Return the parsed paths. Raise an InvalidError that names each invalid path."""
    paths, faults = [], []
    for number, text in enumerate(texts):
        try:
            paths.append(_path(text))
        except MatcherError as error:
            faults.append(FieldError(("fields", number), error.msg))
    if faults:
        raise invalid(faults)
    return paths


def _path(text: str) -> Path:
    root = text.partition(".")[0].partition("[")[0]
    if root in WHOLE_ROOTS:
        if text != root:
            raise MatcherError((), f"{root} can only be erased as a whole; give it without a path")
        return Path(root)
    if root not in PATH_ROOTS:
        raise MatcherError((), f"must begin with one of {', '.join(ROOTS)}")
    if root == "headers":
        return parse_path(text, fields=("headers",))
    # Parse a path in a result like a path in an argument, because both have the same form.
    return Path(root, parse_path(f"argument{text[len(root) :]}", fields=("argument",)).parts)


def _part_view(part: SearchOutcome, redacted: Any) -> dict[str, Any]:
    """Return a `PersonalDataAnswer`."""
    searched = ("jobs", "log_lines", "events", "failure_groups", "notices")
    unread = ("sealed_values", "damaged_jobs", "archived_logs")
    return {
        "found": [_match_view(one) for one in part.found],
        "searched": {kind: part.searched[kind] for kind in searched},
        "unread": {kind: part.unread[kind] for kind in unread},
        "total_jobs": part.total_jobs,
        "redacted": list(redacted),
        "not_searched": list(NOT_SEARCHED),
        "next_cursor": part.cursor,
    }


def _match_view(found: FoundObject) -> dict[str, Any]:
    """Return a `PersonalDataMatch`."""
    return {
        "place": found.place,
        "id": found.id,
        "name": found.name,
        "state": None if found.state is None else str(found.state),
        "fields": list(found.paths),
        "more_fields": found.more,
        "erasable": found.is_over,
    }
