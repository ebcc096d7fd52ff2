"""Batches in the test kit, which behave as they do at a master."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from worker_sdk.errors import RefusedError
from worker_sdk.pusher.jobs import make_job
from worker_sdk.tasks.task import TaskJob
from worker_sdk.testing.records import Run

_GOOD = ("succeeded", "discarded")


@dataclass
class KeptBatch:
    """A batch that a test made. `started`: the callbacks that the batch has enqueued."""

    fields: Mapping[str, Any]
    is_sealed: bool = False
    is_canceled: bool = False
    started: set[str] = field(default_factory=set)


class KeptBatches:
    """The batches of one recording. Batches inside other batches are recorded, but not counted."""

    def __init__(self) -> None:
        self._batches: dict[str, KeptBatch] = {}

    def make(self, fields: Mapping[str, Any]) -> None:
        """Record a batch. A repeat changes nothing."""
        self._batches.setdefault(fields["id"], KeptBatch(fields))

    def known(self, batch_id: str) -> KeptBatch:
        """Return a batch. Raise RefusedError if there is no such batch, as a master does."""
        if batch_id not in self._batches:
            raise RefusedError(404, {"code": "unknown_batch", "detail": f"no batch {batch_id}"})
        return self._batches[batch_id]

    def due(self, batch_id: str, runs: Iterable[Run]) -> list[Mapping[str, Any]]:
        """Return the callbacks that a batch starts now, as jobs, and record that they were started. A batch that the
        test did not make has none."""
        batch = self._batches.get(batch_id)
        if batch is None:
            return []
        members = [run for run in runs if run.job.get("batch") == batch_id]
        is_complete = batch.is_sealed and all(run.is_over for run in members)
        is_good = is_complete and not batch.is_canceled and all(run.state in _GOOD for run in members)
        has_failed = any(run.state == "failed" for run in members)
        found: list[Mapping[str, Any]] = []
        for name, when in (("on_failure", has_failed), ("on_success", is_good), ("on_complete", is_complete)):
            if when and name in batch.fields and name not in batch.started:
                batch.started.add(name)
                found.append(_job(batch.fields[name]))
        return found

    def view(self, batch_id: str, runs: Iterable[Run]) -> dict[str, Any]:
        """Return a batch as a master shows it, with the fields that the kit knows."""
        batch = self.known(batch_id)
        members = [run for run in runs if run.job.get("batch") == batch_id]
        states = ("succeeded", "discarded", "failed", "canceled", "skipped")
        counts = {state: sum(run.state == state for run in members) for state in states}
        unfinished = sum(not run.is_over for run in members)
        state = "open" if not batch.is_sealed else "sealed" if unfinished else "complete"
        return {
            "id": batch_id,
            "state": state,
            "counts": {"total": len(members), "unfinished": unfinished, **counts},
        }


def _job(callback: Mapping[str, Any]) -> Mapping[str, Any]:
    made = make_job(**callback)
    if not isinstance(callback, TaskJob):
        return made
    job: TaskJob[Any] = TaskJob(made)
    job.task, job.arguments, job.options = callback.task, callback.arguments, callback.options
    return job
