"""`jqmaster plan` and `jqmaster apply`: make constraints, calendars and definitions equal to the declarations of
a file or a module."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

import typer

from jqmaster.cli.commands import definitions
from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import MasterSession, path_of
from jqmaster.cli.declared import calendar_documents, constraint_files, definition_documents
from jqmaster.cli.declared.constraint_calls import all_constraints
from jqmaster.cli.declared.constraint_files import canonical_json
from jqmaster.cli.declared.documents import KINDS, LEFT_TO_OPERATORS, DeclaredDocuments, declared_by

_COLLECTIONS: Final[Mapping[str, str]] = {
    "constraint": "/api/constraints",
    "calendar": "/api/calendars",
    "definition": "/api/definitions",
}
_SIGNS: Final[Mapping[str, str]] = {"create": "+", "change": "~", "delete": "-"}

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE|MODULE:TASKS",
        help="TOML or JSON file with tables named constraint, calendar and definition (- reads JSON from standard "
        "input), or a worker_sdk.Tasks, for example app.tasks:tasks.",
    ),
]
PruneOption = Annotated[
    bool,
    typer.Option(
        "--prune", help=("Delete objects that this source declared earlier and no longer declares.")
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        help="Name by which the master recognizes this source. Default: name of the file or module.",
    ),
]


@dataclass(frozen=True, slots=True)
class CurrentDocument:
    """A constraint or definition on the master. `is_covered`: the master hides a part of the argument of the
    definition's job."""

    etag: str
    document: dict[str, Any]
    is_covered: bool = False


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A change of one object.

    * `after`: the object after the change, or None for a deletion.
    * `note`: a text about changes that somebody else made.
    * `table`: the table of the object in the source.
    """

    kind: str
    name: str
    present: CurrentDocument | None
    after: dict[str, Any] | None
    note: str = ""
    table: Mapping[str, Any] = field(default_factory=dict)

    @property
    def action(self) -> str:
        if self.present is None:
            return "create"
        return "delete" if self.after is None else "change"

    def differences(self) -> Iterator[str]:
        """Yield a line for each field that changes. For a new object, yield lines only for fields that the source
        mentions."""
        before = _flat(self.present.document) if self.present else {}
        after = _flat(self.after or {})
        if self.present is None:
            after = {part: after.get(part, value) for part, value in _flat(self.table).items()}
        for part in sorted(before.keys() | after.keys()):
            if canonical_json(before.get(part)) != canonical_json(after.get(part)):
                old = f"{canonical_json(before[part])} -> " if part in before else ""
                yield f"{part}: {old}{canonical_json(after.get(part))}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of one source.

    * `steps`: the changes to make.
    * `kept`: objects that are no longer declared but stay on the master.
    * `known`: the ETags of the objects that the source last declared, by kind and name.
    """

    steps: list[SourceChange]
    kept: list[tuple[str, str]]
    known: Mapping[str, Mapping[str, str]]
    present: Mapping[str, Mapping[str, CurrentDocument]]


def plan(
    http: MasterSession, target: TargetArgument, *, prune: PruneOption = False, source: SourceOption = None
) -> None:
    """Show what `apply` would change in constraints, calendars and definitions. Exit code 6 if there are changes."""
    declared = declared_by(target, source)
    found = _plan(http, declared, prune=prune)
    _show(found, declared.source, as_json=http.as_json)
    raise typer.Exit(exits.CHANGES if any(_is_visible(step) for step in found.steps) else exits.OK)


def apply(
    http: MasterSession, target: TargetArgument, *, prune: PruneOption = False, source: SourceOption = None
) -> None:
    """Show the changes, then make constraints, calendars and definitions equal to the declarations.

    Stops if somebody else changes an object during the run. A second run changes nothing.
    """
    declared = declared_by(target, source)
    found = _plan(http, declared, prune=prune)
    _show(found, declared.source, as_json=http.as_json)
    etags = _etags_before(found, declared)
    for done, step in enumerate(found.steps):
        try:
            etag = _apply(http, step)
        except typer.Exit:
            output.echo(
                f"  Stopped at {step.kind} {output.escape_controls(step.name)}: "
                f"{done} of {len(found.steps)} changes were made; run `plan`.",
                is_error=True,
            )
            # best effort: the reason why the command stopped matters more than a failure of this call.
            with contextlib.suppress(typer.Exit):
                _remember(http, declared.source, found.known, etags)
            raise
        if etag is None:
            etags[step.kind].pop(step.name, None)
        else:
            etags[step.kind][step.name] = etag
    _remember(http, declared.source, found.known, etags)


# --- the plan


def _plan(http: MasterSession, declared: DeclaredDocuments, *, prune: bool) -> Plan:
    answer = http.get("/api/declarations")
    known: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    for one in answer["declarations"]:
        if one["source"] == declared.source:
            known = {kind: one.get(f"{kind}s", {}) for kind in KINDS}
    present = {
        "constraint": {
            one["name"]: CurrentDocument(one["etag"], constraint_files.document_of(one))
            for one in all_constraints(http)
        },
        "calendar": _calendars(http, declared.documents["calendar"].keys() | known["calendar"].keys()),
        "definition": {one["name"]: _definition(one) for one in definitions.all_definitions(http)},
    }
    steps: list[SourceChange] = []
    kept: list[tuple[str, str]] = []
    for kind in KINDS:
        for name, wanted in declared.documents[kind].items():
            step = _step(kind, name, present[kind].get(name), wanted, known[kind].get(name))
            if step is not None:
                steps.append(replace(step, table=declared.tables[kind][name]))
        for name, etag in known[kind].items():
            if name in declared.documents[kind] or name not in present[kind]:
                continue
            if not prune:
                kept.append((kind, name))
                continue
            there = present[kind][name]
            steps.append(SourceChange(kind, name, there, None, _note(there, etag)))
    # Remove calendars last, because definitions may use them until then.
    steps.sort(key=lambda step: step.kind == "calendar" and step.after is None)
    return Plan(steps, kept, known, present)


def _calendars(http: MasterSession, names: Iterable[str]) -> dict[str, CurrentDocument]:
    """Return those of these calendars that exist."""
    found = {}
    for name in sorted(names):
        status, view = http.call("GET", path_of(_COLLECTIONS["calendar"], name), admit=(404,))
        if status != 404:
            found[name] = CurrentDocument(view["etag"], calendar_documents.document_of(view))
    return found


def _etags_before(found: Plan, declared: DeclaredDocuments) -> dict[str, dict[str, str]]:
    """Return the ETags of existing objects that the source declared before. Include objects that it declares now
    and that need no change."""
    changing = {(step.kind, step.name) for step in found.steps}
    etags: dict[str, dict[str, str]] = {}
    for kind in KINDS:
        present = found.present[kind]
        etags[kind] = {name: etag for name, etag in found.known[kind].items() if name in present}
        for name in declared.documents[kind]:
            if name in present and (kind, name) not in changing:
                etags[kind][name] = present[name].etag
    return etags


def _step(
    kind: str, name: str, present: CurrentDocument | None, wanted: dict[str, Any], known_etag: str | None
) -> SourceChange | None:
    """Return the change that leads to the wanted state, or None if there is no difference."""
    if present is None:
        return SourceChange(kind, name, None, wanted)
    after = wanted
    if kind == "definition":
        after = {str(part): present.document[part] for part in LEFT_TO_OPERATORS} | wanted
    if kind == "calendar":
        after = {"weekend": present.document["weekend"]} | wanted
    if not present.is_covered and canonical_json(present.document) == canonical_json(after):
        return None
    note = _note(present, known_etag) if known_etag else "exists, and was not declared by this source"
    return SourceChange(kind, name, present, after, note)


def _note(present: CurrentDocument, known_etag: str) -> str:
    return "" if present.etag == known_etag else "somebody else changed it since this source was applied"


def _definition(view: Mapping[str, Any]) -> CurrentDocument:
    job = view["job"]
    is_covered = (
        job["argument_hidden"]
        or job["argument_redacted"]
        or (job["argument"] is None and job["argument_bytes"] > 1)
    )
    return CurrentDocument(view["etag"], definition_documents.document_of(view), is_covered)


def _is_visible(step: SourceChange) -> bool:
    """Return whether the change is visible without a call to the master. If the job's argument is hidden, only
    the master can compare it. So differences in the argument do not count."""
    if step.present is None or step.after is None or not step.present.is_covered:
        return True
    return bool(list(_covered(step).differences()))


def _covered(step: SourceChange) -> SourceChange:
    """Return the step without the hidden fields of the job."""
    if step.present is None or step.after is None or not step.present.is_covered:
        return step
    shown = {part: step.present.document["job"][part] for part in ("argument", "headers")}
    after = {**step.after, "job": {**step.after["job"], **shown}}
    return SourceChange(step.kind, step.name, step.present, after, step.note)


# --- making the changes


def _apply(http: MasterSession, step: SourceChange) -> str | None:
    """Make a change. Return the new ETag, or None if the object was deleted."""
    path = path_of(_COLLECTIONS[step.kind], step.name)
    headers = {"If-None-Match": "*"} if step.present is None else {"If-Match": f'"{step.present.etag}"'}
    if step.after is None:
        http.call("DELETE", path, headers=headers, admit=(404,))
        return None
    status, answer = http.call("PUT", path, body=step.after, headers=headers, admit=(412,))
    if status == 412:
        # If the master already has the same document, another deploy of the same source was faster. So there is
        # no conflict.
        _, there = http.call("GET", path, admit=(404,))
        if "etag" in there:
            document = _document(step.kind, there)
            if canonical_json({part: document.get(part) for part in step.after}) == canonical_json(
                step.after
            ):
                return str(there["etag"])
        exits.fail(exits.REFUSED, f"{step.kind} {step.name}: {answer['detail']}")
    return str(answer["etag"])


def _document(kind: str, view: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "constraint":
        return constraint_files.document_of(view)
    if kind == "calendar":
        return calendar_documents.document_of(view)
    return definition_documents.document_of(view)


def _remember(
    http: MasterSession,
    source: str,
    known: Mapping[str, Mapping[str, str]],
    etags: Mapping[str, Mapping[str, str]],
) -> None:
    """Record the declared objects at the master if the master does not know them yet."""
    if any(known.get(kind, {}) != etags[kind] for kind in KINDS):
        # Leave out the field of calendars if there are none, because masters of an older release do not know the
        # field and refuse it.
        body = {f"{kind}s": etags[kind] for kind in KINDS if etags[kind] or kind != "calendar"}
        http.call("PUT", path_of("/api/declarations", source), body=body)


# --- output


def _show(found: Plan, source: str, *, as_json: bool) -> None:
    visible = [_covered(step) for step in found.steps if _is_visible(step)]
    for step in visible:
        if as_json:
            before = step.present.document if step.present else None
            output.say_json(
                {"kind": step.kind, "action": step.action, "name": step.name, "before": before, "after": step.after,
                 "note": step.note or None}
            )  # fmt: skip
            continue
        output.say(f"{_SIGNS[step.action]} {step.kind} {step.name}")
        if step.note:
            output.say(f"    ! {step.note}")
        if step.after is not None:
            for line in step.differences():
                output.say(f"    {line}")
    if as_json:
        for kind, name in found.kept:
            output.say_json({"kind": kind, "action": "keep", "name": name, "before": None, "after": None,
                             "note": "no longer declared"})  # fmt: skip
        return
    if found.kept:
        names = ", ".join(f"{kind} {name}" for kind, name in found.kept)
        output.say(f"{source} no longer declares, kept without --prune: {names}")
    if not visible:
        output.say("nothing to change")


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document. The fields of its job are included, with the prefix `job.`."""
    parts = {part: value for part, value in document.items() if part not in ("job", "name")}
    return parts | {f"job.{part}": value for part, value in document.get("job", {}).items()}
