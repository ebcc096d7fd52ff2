"""Definitions declared beside tasks."""

from datetime import UTC, datetime, timedelta

import pytest

from worker_sdk import InvalidArgument, Tasks, Unique

pytestmark = [pytest.mark.req("D6"), pytest.mark.req("S7")]


def test_a_task_has_as_many_definitions_as_one_declares() -> None:
    tasks = Tasks()

    @tasks.every(minutes=5, offset=2, arguments={"kind": "daily"})
    @tasks.task("report/build", timeout=timedelta(minutes=1), max_retry=3, tags=["night"])
    def report(kind: str = "daily") -> str:
        return kind

    declared = tasks.cron(
        "0 3 * * *", tz="Asia/Tokyo", name="nightly", arguments={"kind": "all"}, overlap="queue",
        jitter=timedelta(seconds=90), skip_late_after=60, catch_up="all", max_catch_up=3, enabled=False,
        starts_at=datetime(2026, 1, 1, tzinfo=UTC), description="of the night",
        days={"calendar": "japan", "rule": "next_workday"},
    )(report)  # fmt: skip
    # Both return the task itself, which is called as before.
    assert declared is report is tasks["report/build"]
    assert report() == "daily"
    job = {"name": "report/build", "max_retry": 3, "timeout": 60.0, "tags": ["night"]}
    assert tasks.definitions() == {
        "report-build": {
            "name": "report-build", "schedule": {"every_minutes": 5, "offset": 2},
            "job": {**job, "argument": {"kind": "daily"}},
        },
        "nightly": {
            "name": "nightly", "schedule": {"cron": "0 3 * * *"}, "time_zone": "Asia/Tokyo", "overlap": "queue",
            "jitter_s": 90.0, "skip_late_after_s": 60, "catch_up": "all", "max_catch_up": 3, "enabled": False,
            "starts_at": "2026-01-01T00:00:00+00:00", "description": "of the night",
            "days": {"calendar": "japan", "rule": "next_workday"},
            "job": {**job, "argument": {"kind": "all"}},
        },
    }  # fmt: skip


def test_arguments_are_checked_when_the_definitions_are_asked_for() -> None:
    tasks = Tasks()

    @tasks.every(hours=1)
    @tasks.task("one")
    def one(number: int) -> None: ...

    with pytest.raises(InvalidArgument):
        tasks.definitions()


def test_options_that_a_definition_cannot_have_are_refused() -> None:
    tasks, others = Tasks(), Tasks()

    @tasks.task("one", unique=Unique())
    def one() -> None: ...

    @others.task("two")
    def two() -> None: ...

    with pytest.raises(TypeError, match="only a task of the same Tasks object"):
        tasks.every(minutes=1)(two)
    with pytest.raises(TypeError, match="not an option of a definition: often"):
        tasks.every(minutes=1, often=True)(one)  # type: ignore[call-arg]
    tasks.every(minutes=1)(one)
    with pytest.raises(ValueError, match="a definition one already"):
        tasks.cron("@daily")(one)
    with pytest.raises(TypeError, match="cannot carry unique of one"):
        tasks.definitions()
    others.every(minutes=1, ends_at=datetime(2026, 1, 1))(two)
    with pytest.raises(ValueError, match="ends_at needs a time zone"):
        others.definitions()
