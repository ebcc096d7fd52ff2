"""Definitions that are declared next to tasks: when to start which task, with which arguments."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypedDict, TypeVar

from worker_sdk.tasks.task import Task

TaskT = TypeVar("TaskT", bound=Task[..., Any])

_UNNAMEABLE: Final = re.compile(r"[^A-Za-z0-9_.:\-]")


class DefinitionDays(TypedDict):
    """Days off of a definition: the name of a calendar that the master has, and the rule for its holidays and
    weekends."""

    calendar: str
    rule: Literal["skip_holidays", "only_holidays", "next_workday", "previous_workday"]


class DefinitionOptions(TypedDict, total=False):
    """Options of `Tasks.every` and `Tasks.cron`. The master has a default for each omitted option.

    * `name`: name of the definition. Default: the name of the task, with `-` in place of `/`.
    * `arguments`: arguments of the call, by parameter name.
    * `overlap`: what happens while the previous job is not finished: `allow`, `forbid`, `replace` or `queue`.
    * `catch_up`: which late instants fire: `skip` (none), `latest` or `all`.
    * `max_catch_up`: maximum number of instants that `catch_up` fires.
    * `skip_late_after`: delay after which an instant counts as late.
    * `jitter`: maximum delay. All instants have the same delay, which is derived from the name.
    * `days`: what happens on days off: the name of a calendar, and the rule `skip_holidays`, `only_holidays`,
      `next_workday` or `previous_workday`.
    * `starts_at`, `ends_at`: earliest and latest instant, with a time zone.
    * `description`: text for people.
    * `enabled`: whether the definition starts jobs. If you omit it, a pause that an operator sets survives each deploy.
    """

    name: str
    arguments: Mapping[str, Any]
    overlap: Literal["allow", "forbid", "replace", "queue"]
    catch_up: Literal["skip", "latest", "all"]
    max_catch_up: int
    skip_late_after: float | timedelta
    jitter: float | timedelta
    days: DefinitionDays
    starts_at: datetime
    ends_at: datetime
    description: str
    enabled: bool


class Declared:
    """One definition of a task."""

    def __init__(
        self,
        task: Task[..., Any],
        schedule: Mapping[str, Any],
        options: Mapping[str, Any],
        *,
        job_options: Mapping[str, Any] | None = None,
    ) -> None:
        if unknown := options.keys() - DefinitionOptions.__annotations__.keys() - {"tz"}:
            from worker_sdk.other_queues import unknown_options

            known = {*DefinitionOptions.__annotations__, "minutes", "hours", "offset", "expression", "tz"}
            raise unknown_options(unknown, known, "a definition")
        self._task = task
        self._schedule = schedule
        self._options = options
        self._job_options = job_options or {}
        self.name: str = options.get("name") or definition_name(task.name)

    def document(self) -> dict[str, Any]:
        """Return the definition in the form of the API. Raise TypeError for arguments that do not fit."""
        given = dict(self._options)
        given.pop("name", None)
        document: dict[str, Any] = {
            "name": self.name,
            "job": self._job(given.pop("arguments", {})),
            "schedule": dict(self._schedule),
        }
        if "tz" in given:
            document["time_zone"] = given.pop("tz")
        for option, field in (("jitter", "jitter_s"), ("skip_late_after", "skip_late_after_s")):
            if option in given:
                length = given.pop(option)
                document[field] = length.total_seconds() if isinstance(length, timedelta) else length
        for option in ("starts_at", "ends_at"):
            if option in given:
                document[option] = _instant(option, given.pop(option))
        return document | given

    def _job(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        from worker_sdk.pusher.jobs import STORED_OPTIONS

        refused = sorted({*self._task.options, *self._job_options} - set(STORED_OPTIONS))
        if refused:
            raise TypeError(
                f"definition {self.name}: a definition cannot carry {', '.join(refused)} of {self._task.name}"
            )
        job = self._task.using(**self._job_options).to_job(**arguments)
        fields = {field: job[field] for field in ("name", "argument", *STORED_OPTIONS) if field in job}
        return fields | {"argument": job.argument_for_any_id()}


def definition_name(text: str) -> str:
    """Return a valid name for a definition, made from any text."""
    return _UNNAMEABLE.sub("-", text)[:100]


class Scheduled:
    """The result of `Tasks.every` and `Tasks.cron`: call it with a task to declare the definition."""

    __slots__ = ("_declare",)

    def __init__(self, declare: Callable[[Task[..., Any]], None]) -> None:
        self._declare = declare

    def __call__(self, task: TaskT, /) -> TaskT:
        """Declare the definition, and return the task."""
        self._declare(task)
        return task

    def __repr__(self) -> str:
        return "<definition of a task: call it with the task>"


def _instant(option: str, at: datetime) -> str:
    if at.tzinfo is None:
        raise ValueError(f"{option} needs a time zone")
    return at.isoformat()
