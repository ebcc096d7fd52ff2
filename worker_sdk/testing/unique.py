"""Decide in tests which job holds a uniqueness key, as a master does."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from worker_sdk.testing.records import Run
from worker_sdk.wire import encode


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """The uniqueness rule of a job. A window does not end within a test block, because its clock does not advance."""

    key: tuple[str, bytes]
    scope: str
    on_conflict: str

    @classmethod
    def of(cls, job: Mapping[str, Any]) -> Self | None:
        """Return the uniqueness rule of a job, or None if the job has no such rule."""
        unique: Mapping[str, Any] | None = job.get("unique")
        is_debounce = unique is None
        fields: Mapping[str, Any] | None = job.get("debounce") if is_debounce else unique
        if fields is None:
            return None
        text = fields.get("key")
        argument = b"a" + encode(_sorted(job.get("argument")))
        return cls(
            (job["name"], argument if text is None else b"k" + text.encode()),
            "until_start" if is_debounce else fields.get("scope", "until_finished"),
            "replace" if is_debounce else fields.get("on_conflict", "reject"),
        )

    def is_held_by(self, run: Run) -> bool:
        """Return whether a job that took the key still holds it."""
        rule = type(self).of(run.job)
        match rule.scope if rule else self.scope:
            case "until_start":
                return run.attempts == 0 and not run.is_over
            case "window":
                return True
            case _:
                return not run.is_over


def _sorted(value: Any) -> Any:
    """Return the value in a form for comparison: members of maps in a fixed order, and whole numbers as integers."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value, key=repr)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
