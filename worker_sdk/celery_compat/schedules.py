"""The schedules of beat, converted to definitions of a master."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final, NoReturn

from worker_sdk.celery_compat.guide import GUIDE, missing

_MISSING: Final = {
    "solar": "send an event, or start the task from a definition each minute",
    "BaseSchedule": "use a condition of worker_sdk",
    "ParseException": "a faulty expression is refused by the master",
}
_FIELDS: Final = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")

Field = str | int | Iterable[Any]


class crontab:  # noqa: N801  Celery's name
    """A schedule by minutes, hours and days, as Celery writes it.

    * `minute`, `hour`, `day_of_week`, `day_of_month`, `month_of_year`: numbers, texts such as `*/15`, or iterables of
      either.

    Celery starts a task on days that match both `day_of_month` and `day_of_week`. The cron of masters starts it on days
    that match either. A schedule that gives both is therefore refused.
    """

    def __init__(
        self,
        minute: Field = "*",
        hour: Field = "*",
        day_of_week: Field = "*",
        day_of_month: Field = "*",
        month_of_year: Field = "*",
        **options: Any,
    ) -> None:
        if options:
            raise TypeError(f"{', '.join(sorted(options))}: not an option of crontab; {GUIDE}")
        given = (minute, hour, day_of_month, month_of_year, day_of_week)
        fields = dict(zip(_FIELDS, map(_text_of, given), strict=True))
        if fields["day_of_month"] != "*" and fields["day_of_week"] != "*":
            raise ValueError(
                "crontab with day_of_month and day_of_week: Celery starts the task on days that fit both, and cron on "
                f"days that fit either. Give one of them, and test the other in the task; {GUIDE}"
            )
        self.expression = " ".join(fields.values())

    def __repr__(self) -> str:
        return f"<crontab {self.expression}>"

    def definition(self, time_zone: str) -> dict[str, Any]:
        """Return the schedule as an argument of `Tasks.cron`."""
        return {"schedule": {"cron": self.expression}, "tz": time_zone}


class schedule:  # noqa: N801  Celery's name
    """A schedule with a fixed interval.

    * `run_every`: length of the interval, as a timedelta or in seconds. Masters accept whole minutes only.
    * `relative`: changes nothing: intervals are counted from midnight UTC.
    """

    def __init__(self, run_every: float | timedelta, relative: bool = False, **options: Any) -> None:
        self.run_every = run_every if isinstance(run_every, timedelta) else timedelta(seconds=run_every)

    def __repr__(self) -> str:
        return f"<schedule of {self.run_every}>"

    def definition(self, time_zone: str) -> dict[str, Any]:
        """Return the schedule as an argument of `Tasks.every`. Raise ValueError for an interval that is not a whole
        number of minutes."""
        minutes, rest = divmod(self.run_every, timedelta(minutes=1))
        if rest or minutes < 1:
            raise ValueError(
                f"an interval of {self.run_every.total_seconds():g} s: a definition starts at whole minutes. For "
                f"less, let one job enqueue the next with countdown; {GUIDE}"
            )
        return {"schedule": {"every_minutes": minutes, "offset": 0}}


def schedule_of(given: Any) -> "crontab | schedule":
    """Return the schedule that an entry of `beat_schedule` gives."""
    if isinstance(given, crontab | schedule):
        return given
    if isinstance(given, int | float | timedelta):
        return schedule(given)
    raise TypeError(
        f"a schedule is a crontab, a timedelta or seconds, not a {type(given).__module__}.{type(given).__name__}; "
        f"change the import of crontab, too, if it is Celery's; {GUIDE}"
    )


def _text_of(field: Field) -> str:
    if isinstance(field, str):
        return field.replace(" ", "") or "*"
    if isinstance(field, int):
        return str(field)
    return ",".join(str(one) for one in sorted(field))


def __getattr__(name: str) -> NoReturn:
    missing(__name__, name, _MISSING)
