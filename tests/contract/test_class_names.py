"""Class names are unique in the product, except those listed here."""

import ast
from collections import defaultdict
from pathlib import Path

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


def classes() -> dict[str, list[Path]]:
    found = defaultdict[str, list[Path]](list)
    for package in ("jqmaster", "worker_sdk"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT)
            if place not in GENERATED:
                for node in ast.walk(ast.parse(path.read_text())):
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
