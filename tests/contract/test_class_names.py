"""Class names are unique in the product, except those listed here, and a homonym names one thing."""

import ast
import functools
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tests.contract.lexicon import HOMONYMS, lua_faults, misplaced
from tests.support.syntax import declarations

ROOT = Path(__file__).parents[2]
# Generated from the API's schemas under their names.
GENERATED = {Path("worker_sdk/protocol.py")}
# Both distributions use this class name for the same thing, as seen by applications and by the master.
SAME_ON_BOTH_SIDES = {
    "After", "Batch", "Callback", "Challenge", "Choice", "Debounce", "Ending", "Event", "Form", "Job", "Unique",
    "Worker",
}  # fmt: skip
# Names determined by others.
GIVEN = {
    "Command": "Django finds commands of `manage.py` by it, and users name that of shell commands",
    "Migration": "Django finds migrations by it",
    "Request": "Celery's name of what a bound task sees",
    "Ignore": "Celery's name of an exception",
    "Signature": "Celery's name of a call as data",
}


@functools.cache
def classes() -> dict[str, list[Path]]:
    found = defaultdict[str, list[Path]](list)
    for package in ("jqmaster", "worker_sdk"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT)
            if place not in GENERATED:
                for node in declarations(ast.parse(path.read_text())):
                    if isinstance(node, ast.ClassDef):
                        found[node.name].append(place)
    return found


def test_no_name_is_there_twice_but_for_one_thing_on_both_sides() -> None:
    places_of = classes()
    twice = {name for name, places in places_of.items() if len(places) > 1}
    assert twice == SAME_ON_BOTH_SIDES | GIVEN.keys()
    for name in SAME_ON_BOTH_SIDES:
        packages = [place.parts[0] for place in places_of[name]]
        assert sorted(packages) == ["jqmaster", "worker_sdk"], places_of[name]


def _names() -> list[tuple[str, Path]]:
    """Return the names of all classes and modules, each with its file."""
    modules = [
        path for package in ("jqmaster", "worker_sdk") for path in sorted((ROOT / package).rglob("*.py"))
    ]
    return [
        *((name, place) for name, places in classes().items() for place in places),
        *((path.stem, path.relative_to(ROOT)) for path in modules),
    ]


def test_a_homonym_is_part_of_names_of_one_thing_only() -> None:
    found = [fault for name, place in _names() if (fault := misplaced(name.strip("_"), place.as_posix()))]
    assert not found, "\n".join(found)


def test_an_exception_of_the_lexicon_is_a_class_or_a_module() -> None:
    known = {name.strip("_") for name, _ in _names()}
    assert {name for homonym in HOMONYMS for name in homonym.besides} <= known


@pytest.mark.parametrize(
    ("package", "suffix"), [("jqmaster", "py"), ("jqmaster", "lua"), ("jqmaster", "js"), ("worker_sdk", "py")]
)
def test_constants_for_bounds_begin_with_max_and_min(package: str, suffix: str) -> None:
    paths = [path for path in (ROOT / package).rglob(f"*.{suffix}") if "bundle" not in path.parts]
    assert paths
    found = {path: re.findall(r"\b_?(?:MOST|LEAST)_[A-Z]\w*", path.read_text()) for path in paths}
    assert {path.as_posix(): names for path, names in found.items() if names} == {}


def test_scripts_use_the_words_of_the_lexicon() -> None:
    files = sorted((ROOT / "jqmaster" / "store" / "lua").rglob("*.lua"))
    assert len(files) > 200
    found = [fault for file in files for fault in lua_faults(file.read_text(), file.name)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("OrderStore", "jqmaster/store/jobs/order.py"), ("order", "jqmaster/domain/jobs/order.py"),
        ("WorkerOrders", "jqmaster/runtime/outbound/orders.py"), ("ShardParts", "jqmaster/app/parts.py.old"),
        ("DeliveryRunner", "jqmaster/runtime/duties/delivery_runner.py"),
        ("ScriptContractError", "jqmaster/store/link/scripts.py"), ("ReportOutbox", "worker_sdk/worker/reports.py"),
        ("NaturalBatcher", "jqmaster/service/jobs/batching.py"),
        ("BackupSeal", "jqmaster/store/backup/encryption.py"), ("EventGathering", "jqmaster/service/events/intake.py"),
        ("Step", "worker_sdk/dependencies/values.py"), ("ShownGroup", "jqmaster/service/jobs/failures.py"),
        ("AuditEvent", "jqmaster/domain/identity/audit.py"), ("WeightedTurns", "jqmaster/domain/constraints/turns.py"),
        ("ShardMark", "jqmaster/app/shard.py"), ("Incident", "jqmaster/domain/notices/findings.py"),
        ("HealthLook", "jqmaster/service/operations/health.py"),
    ],
)  # fmt: skip
def test_a_second_meaning_is_found(name: str, path: str) -> None:
    assert misplaced(name, path)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("PartStore", "jqmaster/store/jobs/parts.py"), ("BatchService", "jqmaster/service/batches/batches.py"),
        ("_Recorder", "worker_sdk/testing/harness.py"), ("Departure", "jqmaster/app/departure.py"),
        ("DeliveryReader", "jqmaster/service/notices/webhooks.py"),
    ],
)  # fmt: skip
def test_the_one_meaning_passes(name: str, path: str) -> None:
    assert misplaced(name, path) is None


def test_a_forbidden_name_in_a_script_is_found() -> None:
    assert lua_faults("local rules = redis.call('HMGET', rules_key, 'edition') -- rules", "claim.lua") == [
        "claim.lua: rules: say constraints, editions, facts"
    ]
