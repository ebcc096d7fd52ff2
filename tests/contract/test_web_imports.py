"""The web UI has the rooms of the house: its imports flow from the shell through the rooms down to `ui` and `core`."""

import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support.web_sources import WEB, web_sources

# The rooms that all others use, from the lowest up. Each may import those before it.
BASE = ("vendor", "core", "ui")
# The other rooms whose files each room may import. A single file that it may import is named as ROOM/FILE.
ROOMS: dict[str, set[str]] = {
    "vendor": set(),
    "lang": {"core/states"},
    "core": set(),
    "ui": set(),
    "matching": set(),
    "logs": set(),
    "workers": set(),
    "challenges": set(),
    "namespaces": {"identity"},
    "personal_data": set(),
    "notices": {"matching"},
    "targets": {"identity"},
    "batches": {"jobs/backlog_why", "jobs/columns", "jobs/error_kinds", "jobs/flow"},
    "calendars": {"definitions/schedules", "identity"},
    "jobs": {
        "identity/value_words",
        "batches/parts",
        "challenges/parts",
        "constraints/limits",
        "constraints/pause_dialog",
        "constraints/pauses",
        "logs",
        "operations/marks",
        "workers/labels",
        "workers/served",
        "workers/worker_link",
    },
    "constraints": {"identity", "matching"},
    "definitions": {
        "events",
        "identity",
        "jobs/verdicts",
        "matching",
        "operations/runbook_link",
        "workers/labels",
        "workers/served",
    },
    "events": {"definitions/runs", "definitions/schedules", "matching"},
    "identity": {"constraints/limits", "definitions/schedules", "matching"},
    "operations": {
        "constraints/pauses",
        "definitions/runs",
        "identity",
        "jobs/backlog_why",
        "jobs/verdicts",
    },
    "shell": {
        "batches/parts",
        "constraints/pause_dialog",
        "definitions/dialogs",
        "jobs/actions",
        "namespaces",
        "operations/runbook_link",
    },
}
IMPORT = re.compile(r"""\b(?:import|export)\b[\w\s{},*]*?\bfrom\s*"(\.[^"\n]+)\"""")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def name_of(path: Path) -> str:
    """Return the path below the UI's folder without its ending, such as `jobs/pages/job`."""
    return path.relative_to(WEB).with_suffix("").as_posix()


def imports_of(path: Path, text: str) -> Iterator[str]:
    # Types are imported in comments. They load nothing.
    for target in IMPORT.findall(COMMENT.sub("", text)):
        yield name_of((path.parent / target).resolve())


def faults_of(name: str, targets: Iterator[str]) -> list[str]:
    """Return the imports of a file that its room may not have."""
    room = name.partition("/")[0]
    below = BASE[: BASE.index(room)] if room in BASE else BASE if room != "lang" else ()
    faults = []
    for target in targets:
        other = target.split("/")[0]
        if "/pages/" in target:
            # A page stands for itself, or shares with the other pages of its room.
            is_allowed = room == "shell" or ("/pages/" in name and other == room)
        else:
            is_allowed = other in (room, *below) or bool({other, target} & ROOMS[room])
        if not is_allowed:
            faults.append(f"{name} imports {target}")
    return faults


@pytest.mark.req("J15")
def test_every_source_stands_in_a_room() -> None:
    doors = {path.name for path in web_sources() if path.parent == WEB}
    assert doors == set()
    assert {name_of(path).split("/")[0] for path in web_sources()} | {"vendor"} == ROOMS.keys()


@pytest.mark.req("J15")
def test_rooms_import_only_what_they_may() -> None:
    faults = [
        fault
        for path in web_sources()
        for fault in faults_of(name_of(path), imports_of(path, path.read_text("utf-8")))
    ]
    assert faults == []


def test_no_file_imports_itself_by_way_of_others() -> None:
    graph = {name_of(path): set(imports_of(path, path.read_text("utf-8"))) for path in web_sources()}
    TopologicalSorter(graph).prepare()


def test_every_permission_is_used() -> None:
    """A room that was allowed an import once and no longer needs it should not get it back unnoticed."""
    used: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in web_sources():
        name = name_of(path)
        for target in imports_of(path, path.read_text("utf-8")):
            used[name.split("/")[0]] |= {target, target.split("/")[0]}
    assert {room: allowed - used[room] for room, allowed in ROOMS.items() if allowed - used[room]} == {}


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("ui/tables", "jobs/columns"),
        ("core/live", "ui/controls"),
        ("jobs/columns", "shell/app"),
        ("jobs/columns", "definitions/editor"),
        ("operations/health_line", "operations/pages/overview"),
        ("operations/pages/overview", "jobs/pages/jobs"),
    ],
)
def test_such_an_import_is_a_fault(name: str, target: str) -> None:
    assert faults_of(name, iter([target])) == [f"{name} imports {target}"]
