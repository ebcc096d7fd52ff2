"""Quotas: how much a namespace may use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True)
class Quotas:
    """The bounds of a namespace. None: the default of the installation, or no bound.

    * `waiting_jobs`: jobs that may wait.
    * `waiting_bytes`: bytes of the records of waiting jobs. Arguments are usually the largest part of a record.
    * `pushes_per_s`: jobs pushed in a second.
    * `argument_bytes`: bytes of the largest argument of one job.
    * `workers`: registered workers.
    * `streams`: live event streams that one master serves.
    """

    waiting_jobs: int | None = None
    waiting_bytes: int | None = None
    pushes_per_s: int | None = None
    argument_bytes: int | None = None
    workers: int | None = None
    streams: int | None = None

    def or_else(self, defaults: "Quotas") -> "Quotas":
        """Return these quotas. Fill in the defaults for quotas that are not set."""
        own, others = quotas_set(self), quotas_set(defaults)
        return Quotas(**{**others, **own})


NO_QUOTAS: Final = Quotas()
QUOTAS: Final = tuple(one.name for one in fields(Quotas))
# By quota: its largest allowed value.
MOST: Final[Mapping[str, int]] = {
    "waiting_jobs": 1_000_000_000,
    "waiting_bytes": 1_000_000_000_000,
    "pushes_per_s": 1_000_000,
    "argument_bytes": 1_000_000_000,
    "workers": 100_000,
    "streams": 10_000,
}


def quotas_set(quotas: Quotas) -> dict[str, int]:
    """Return the quotas that are set, by name."""
    found = {name: getattr(quotas, name) for name in QUOTAS}
    return {name: value for name, value in found.items() if value is not None}


def quota_fault(name: str, value: int) -> str | None:
    """Return why this value is invalid for a quota, or None if it is valid."""
    if value < 1:
        return "must be at least 1; leave it out for the default of the installation"
    return f"must be at most {MOST[name]}" if value > MOST[name] else None


def quotas_of(entries: Sequence[str]) -> Quotas:
    """Return the quotas of a validated setting, such as `waiting_jobs=100000`."""
    return Quotas(**{name: int(value) for name, _, value in (entry.partition("=") for entry in entries)})
