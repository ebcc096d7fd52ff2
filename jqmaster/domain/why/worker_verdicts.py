"""Verdicts on workers: none is alive for the job, none has the labels that the job requires, or none takes it now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from jqmaster.domain.instant import span


@dataclass(frozen=True, slots=True)
class NoWorker:
    """No live worker is registered for the name. The workers that serve it, if any, are silent or detached. `similar`:
    a similar name that live workers serve, if no worker knows this name."""

    code: ClassVar = "no_worker"
    name: str
    stale: int
    detached: int
    last_seen_ms: int | None
    now_ms: int
    similar: str | None = None

    @property
    def text(self) -> str:
        if not (self.stale or self.detached):
            end = f"; did you mean {self.similar}?" if self.similar else "."
            return f"No worker is registered for jobs named {self.name}{end}"
        known = [
            f"{count} {what}"
            for count, what in ((self.stale, "silent"), (self.detached, "detached"))
            if count
        ]
        seen = "" if self.last_seen_ms is None else f", last seen {span(self.now_ms - self.last_seen_ms)} ago"
        return f"No live worker is registered for jobs named {self.name}: {' and '.join(known)}{seen}."


@dataclass(frozen=True, slots=True)
class NearWorker:
    """A live worker for the name that lacks some labels. `missing`: by label, the value that the job requires and the
    value of the worker. The worker's value is `None` if it has no such label.
    """

    worker_id: str
    node_id: str
    missing: Mapping[str, tuple[str, str | None]]

    @property
    def place(self) -> str:
        """Return where the worker runs. If its host is unknown, return its ID."""
        return f"on host {self.node_id}" if self.node_id else self.worker_id

    @property
    def lack(self) -> str:
        return "has " + ", ".join(
            f"no label {key}" if has_value is None else f"{key}={has_value} instead of {value}"
            for key, (value, has_value) in self.missing.items()
        )


@dataclass(frozen=True, slots=True)
class NoMatchingWorker:
    """No live worker for the name has the labels that the job requires. `nearest`: some of the workers that lack the
    fewest labels."""

    code: ClassVar = "no_matching_worker"
    name: str
    requires: Mapping[str, str]
    workers: int
    nearest: tuple[NearWorker, ...]

    @property
    def text(self) -> str:
        wanted = ", ".join(f"{key}={value}" for key, value in self.requires.items())
        none = f"None of the {self.workers} live workers" if self.workers > 1 else "The only live worker"
        has = "has" if self.workers > 1 else "does not have"
        first = f"{none} for jobs named {self.name} {has} the labels that the job requires ({wanted})."
        if len(self.nearest) == 1:
            (one,) = self.nearest
            return f"{first} The nearest worker, {one.place}, {one.lack}."
        near = "; ".join(f"the worker {one.place} {one.lack}" for one in self.nearest)
        return f"{first} Nearest: {near}."


@dataclass(frozen=True, slots=True)
class WorkersUnavailable:
    """None of the live workers for the name takes a job now; each counts once. `broken`, `paused` and `refusing` are
    `None` if this master does not lead. `broken_why`: the reasons of the last failed pushes to the broken workers.
    """

    code: ClassVar = "workers_unavailable"
    name: str
    workers: int
    full: int
    draining: int
    pulling: int
    broken: int | None
    paused: int | None
    refusing: int | None
    busy: int
    max_jobs: int
    broken_why: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        reasons = ["; ".join(self.broken_why)] if self.broken_why else []
        whys = [
            f"{count} {why}"
            for count, why in (
                (self.full, f"full ({self.busy} of {self.max_jobs} slots)"),
                (self.draining, "draining"),
                (self.broken, f"not reachable ({': '.join(['circuit breaker open', *reasons])})"),
                (self.paused, "asked for a pause"),
                (self.refusing, "registered for the name and refused it as unknown"),
                (self.pulling, "not asking for jobs (they pull, because they have no address)"),
            )
            if count
        ]
        none = f"None of the {self.workers} live workers" if self.workers > 1 else "The only live worker"
        verb = "takes a job now" if self.workers > 1 else "takes no job now"
        unknown = " Only the leader knows whether other workers are reachable." if self.broken is None else ""
        return f"{none} for jobs named {self.name} {verb}: {', '.join(whys)}.{unknown}"
