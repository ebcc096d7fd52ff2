"""Labels that tell jobs of one name apart: their keys, or the values of the arguments in which they differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MAX_LABEL: Final = 80
# Maximum length of a value in a label.
_MAX_VALUE: Final = 40
# Maximum number of values from the argument in a label.
_MAX_VALUES: Final = 2
# How deep an argument is searched for values, and the maximum number of values that are read.
_MAX_DEPTH: Final = 3
_MAX_VALUES_READ: Final = 40
# A beginning that all values share is left out if it is longer than this.
_LONG_PREFIX: Final = 12


@dataclass(frozen=True, slots=True)
class LabelFacts:
    """The facts about a job that may distinguish it.

    * `key`: its uniqueness key. None: it has none.
    * `argument`: decoded; None if it is not known.
    """

    id: str
    name: str
    key: str | None
    argument: object
    tags: tuple[str, ...]


def labels(jobs: Sequence[LabelFacts]) -> dict[str, str]:
    """Return labels by job ID, such as `width=160`. A label distinguishes its job from the other jobs of the same name.
    A job has no label if no other job has its name, or if no known fact distinguishes the job."""
    by_name: dict[str, list[LabelFacts]] = {}
    for job in jobs:
        by_name.setdefault(job.name, []).append(job)
    found: dict[str, str] = {}
    for alike in by_name.values():
        if len(alike) > 1:
            found |= _of_alike(alike)
    return {job_id: _cut(label, MAX_LABEL) for job_id, label in found.items() if label}


def _of_alike(jobs: Sequence[LabelFacts]) -> dict[str, str]:
    keys = {job.id: job.key for job in jobs if job.key is not None}
    if len(set(keys.values())) == len(jobs):
        return _without_common(keys)
    values = {job.id: dict(_leaves(job.argument, "", _MAX_DEPTH)) for job in jobs}
    paths = _telling(list(values.values()))
    if paths:
        parts = [_without_common({i: of[path] for i, of in values.items() if path in of}) for path in paths]
        return {
            job.id: " ".join(
                _named(path, one[job.id]) for path, one in zip(paths, parts, strict=True) if job.id in one
            )
            for job in jobs
        }
    tags = {job.id: " ".join(job.tags) for job in jobs}
    return tags if len(set(tags.values())) > 1 else {}


def _leaves(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the paths and texts of the first short values within an argument."""
    items: Iterator[tuple[object, object]]
    if isinstance(value, Mapping):
        items = iter(value.items())
    elif isinstance(value, list):
        items = iter(enumerate(value))
    else:
        if isinstance(value, str | int | float):
            yield path, str(value)
        return
    if depth == 0:
        return
    count = 0
    for key, inner in items:
        for found in _leaves(inner, f"{path}.{key}" if path else str(key), depth - 1):
            yield found
            count += 1
            if count >= _MAX_VALUES_READ:
                return


def _telling(values: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the fewest paths whose values distinguish the most jobs. Shallow and early paths are preferred."""
    paths = list(dict.fromkeys(path for one in values for path in one))
    paths.sort(key=lambda path: path.count("."))
    chosen: list[str] = []
    most = 1
    while most < len(values) and len(chosen) < _MAX_VALUES:
        counts = {
            path: len({tuple(one.get(part) for part in (*chosen, path)) for one in values})
            for path in paths
            if path not in chosen
        }
        best = max(counts, key=lambda path: counts[path], default=None)
        if best is None or counts[best] <= most:
            break
        chosen.append(best)
        most = counts[best]
    return chosen


def _without_common(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values without a long beginning that all share."""
    prefix = _common(min(values.values()), max(values.values())) if len(values) > 1 else ""
    # Shorten the common beginning, so that no number or word is cut in its middle.
    cut = len(prefix.rstrip("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    if cut < _LONG_PREFIX:
        return {job_id: _cut(value, _MAX_VALUE) for job_id, value in values.items()}
    return {job_id: "…" + _cut(value[cut:], _MAX_VALUE - 1) for job_id, value in values.items()}


def _common(first: str, last: str) -> str:
    """Return the beginning that two texts share."""
    length = next(
        (at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
    )
    return first[:length]


def _named(path: str, value: str) -> str:
    return f"{path}={value}" if path else value


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
