"""The constraints, calendars and definitions that a file or a module declares, in the form that the master would
show."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jqmaster.cli.console import exits
from jqmaster.cli.console.documents import parsed
from jqmaster.cli.declared import constraint_files
from jqmaster.cli.declared.checked_tables import checked_tables
from jqmaster.cli.declared.definition_documents import FIELDS, is_written, job_of
from worker_sdk.command_line.objects import object_at

# The kinds of objects in the order in which they are created: a definition needs its calendar.
KINDS: Final = ("constraint", "calendar", "definition")
# Names of tables that a later release will accept.
_PLANNED: Final = ("notice",)
_MODULE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9_.:\-]")
_KINDS_TEXT: Final = "constraint, calendar and definition"
# Fields that operators change during an incident. They stay unchanged if the source does not set them.
LEFT_TO_OPERATORS: Final = ("enabled", "reason")


@dataclass(frozen=True, slots=True)
class DeclaredDocuments:
    """The documents of a source, by kind and name, and the tables from which they were made."""

    source: str
    documents: Mapping[str, Mapping[str, dict[str, Any]]]
    tables: Mapping[str, Mapping[str, Mapping[str, Any]]]


def declared_by(target: str, source: str | None) -> DeclaredDocuments:
    """Return the declarations of a file, or of the Tasks at MODULE:OBJECT. If they have faults, end the command
    and print all faults."""
    is_module = _MODULE.fullmatch(target) is not None and not Path(target).exists()
    tables = _tables_of_module(target) if is_module else _tables_of_file(target)
    constraints, faults = constraint_files.checked(tables["constraint"])
    calendars, of_calendars = _checked_calendars(tables["calendar"])
    definitions, of_definitions = _checked_definitions(tables["definition"])
    if faults := faults + of_calendars + of_definitions:
        exits.fail(exits.USAGE, "\n".join(f"{target}: {fault}" for fault in faults))
    name = source or (target if is_module else "stdin" if target == "-" else Path(target).name)
    return DeclaredDocuments(
        _UNNAMEABLE.sub("-", name)[:100],
        {"constraint": constraints, "calendar": calendars, "definition": definitions},
        {kind: {table["name"]: table for table in tables[kind]} for kind in KINDS},
    )


def _tables_of_file(file: str) -> dict[str, list[dict[str, Any]]]:
    data = parsed(file)
    if not isinstance(data, dict) or not data:
        # Refuse a file without tables, because a truncated file must not remove all objects. To remove all
        # objects on purpose, use `{"definition": []}`.
        exits.fail(exits.USAGE, f"{file} declares nothing: expected tables named {_KINDS_TEXT}")
    for name in data:
        if name in _PLANNED:
            exits.fail(exits.USAGE, f"{file}: this release accepts no tables named {name}")
        if name not in KINDS:
            hint = f", not `{name}`" if name.rstrip("s") in KINDS else f"; what is `{name}`?"
            exits.fail(exits.USAGE, f"{file}: expected tables named {_KINDS_TEXT}{hint}")
        tables = data[name]
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            exits.fail(exits.USAGE, f"{file}: `{name}` is not a list of tables")
    return {kind: data.get(kind, []) for kind in KINDS}


def _tables_of_module(target: str) -> dict[str, list[dict[str, Any]]]:
    from jqmaster.api.encoding.answers import encode
    from jqmaster.api.encoding.negotiation import Encoding

    found = object_at(target)
    if not callable(getattr(found, "definitions", None)):
        exits.fail(exits.USAGE, f"{target} is not a worker_sdk.Tasks")
    try:
        documents = found.definitions()
        definitions = [json.loads(encode(document, Encoding.JSON)) for document in documents.values()]
    except (TypeError, ValueError) as error:
        exits.fail(exits.USAGE, f"{target}: {error}")
    return {"constraint": [], "calendar": [], "definition": definitions}


def _checked_calendars(tables: Iterable[Mapping[str, Any]]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the valid calendars by name, in the form that the master would show, and the faults of the other
    calendars. The weekend is missing if the source does not set it."""
    from jqmaster.api.calendars.schemas import CalendarRequest
    from jqmaster.cli.declared.calendar_documents import document_of_request

    checked, faults = checked_tables("calendar", tables, CalendarRequest, document_of_request)
    return {name: document for name, (_, document) in checked.items()}, faults


def _checked_definitions(tables: Iterable[Mapping[str, Any]]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Return the valid definitions by name, in the form that the master would show, and the faults of the other
    definitions. Fields of LEFT_TO_OPERATORS are missing if the source does not set them."""
    from jqmaster.api.definitions.schemas import DefinitionRequest
    from jqmaster.service.definitions.documents import describe, draft_of

    def document_of_request(name: str, request: DefinitionRequest) -> dict[str, Any]:
        job = request.job.to_spec()
        document = describe(draft_of(name, request.model_dump(), job))
        document["argument"] = request.argument
        document["job"] |= {"argument": request.job.argument, "headers": dict(job.headers)}
        return document

    checked, faults = checked_tables("definition", tables, DefinitionRequest, document_of_request)
    wanted: dict[str, dict[str, Any]] = {}
    for name, (table, shown) in checked.items():
        left_out = [field for field in LEFT_TO_OPERATORS if field not in table]
        left_out += [field for field in FIELDS if not is_written(field, shown)]
        wanted[name] = {field: shown[field] for field in FIELDS if field not in left_out} | {
            "job": job_of(shown["job"])
        }
    return wanted, faults
