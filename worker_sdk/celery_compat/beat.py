"""Convert entries of `beat_schedule` to definitions of a master."""

from collections.abc import Mapping
from typing import Any

from worker_sdk.celery_compat.guide import GUIDE
from worker_sdk.celery_compat.process import KnownTask
from worker_sdk.celery_compat.schedules import schedule_of
from worker_sdk.tasks.scheduled import Declared, definition_name

# Options of a schedule's entry that only concern brokers, and are ignored.
_OPTIONS_WITHOUT_EFFECT = frozenset({"routing_key", "exchange", "serializer", "compression", "retry"})


def definitions_of(
    entries: Mapping[str, Mapping[str, Any]], tasks: Mapping[str, KnownTask], time_zone: str
) -> dict[str, Declared]:
    """Return the definitions of the entries of `beat_schedule`, by name. Raise ValueError or TypeError for an entry
    that a master cannot express. The error names the entry."""
    found: dict[str, Declared] = {}
    for name, entry in entries.items():
        try:
            declared = _definition_of(name, entry, tasks, time_zone)
        except (TypeError, ValueError, LookupError) as exc:
            message = exc.args[0] if isinstance(exc, LookupError) else exc
            raise type(exc)(f"beat_schedule, {name}: {message}") from None
        if declared.name in found:
            raise ValueError(
                f"beat_schedule, {name}: another entry makes the definition {declared.name}, too"
            )
        found[declared.name] = declared
    return found


def _definition_of(
    name: str, entry: Mapping[str, Any], tasks: Mapping[str, KnownTask], time_zone: str
) -> Declared:
    task = tasks.get(str(entry["task"]))
    if task is None:
        raise LookupError(f"no task {entry['task']} in this process: import its module; {GUIDE}")
    options = task.job_options(
        {
            option: value
            for option, value in dict(entry.get("options") or {}).items()
            if option not in _OPTIONS_WITHOUT_EFFECT
        }
    )
    schedule = schedule_of(entry["schedule"]).definition(time_zone)
    given: dict[str, Any] = {"name": definition_name(name)}
    if "tz" in schedule:
        given["tz"] = schedule["tz"]
    arguments = task.arguments(entry.get("args") or (), entry.get("kwargs") or {})
    return Declared(task.task, schedule["schedule"], {**given, "arguments": arguments}, job_options=options)
