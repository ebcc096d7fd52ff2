"""Labels that a job requires of its worker. Jobs of one name that require the same labels form their own queue. Claims
for workers without these labels do not read this queue, so it neither slows nor blocks them."""

import json
from collections.abc import Iterable, Mapping
from typing import Final

MAX_REQUIRED: Final = 8
# Separates the name from the labels in a queue. No job name contains it.
SEPARATOR: Final = "\t"


def queue_of(name: str, requires: Mapping[str, str] | None) -> str:
    """Return the queue of a job: its name and the labels that it requires, if any."""
    if not requires:
        return name
    labels = json.dumps(dict(sorted(requires.items())), separators=(",", ":"))
    return f"{name}{SEPARATOR}{labels}"


def name_of(queue: str) -> str:
    """Return the name of the jobs in a queue."""
    return queue.partition(SEPARATOR)[0]


def requires_of(queue: str) -> dict[str, str]:
    """Return the labels that the jobs of a queue require. Raise ValueError for a text that is not a queue."""
    found = json.loads(queue.partition(SEPARATOR)[2] or "{}")
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise ValueError("a requirement is a map of texts")
    return found


def is_met(requires: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether a worker with these labels may run jobs that require the labels `requires`."""
    return all(labels.get(key) == value for key, value in requires.items())


def queues_for(names: Iterable[str], labels: Mapping[str, str], queues: Iterable[str]) -> tuple[str, ...]:
    """Return the queues whose jobs a worker with these names and labels may run, sorted. Leave out queues
    that cannot be read."""
    served = frozenset(names)
    found = []
    for queue in queues:
        if name_of(queue) not in served:
            continue
        try:
            requires = requires_of(queue)
        except ValueError:
            continue
        if is_met(requires, labels):
            found.append(queue)
    return tuple(sorted(found))
