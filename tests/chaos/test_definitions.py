"""The independent computation of instants, the check of records against it, and a short run with real masters."""

import random
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from jqmaster.domain.definitions.schedule import parse_schedule
from tests.chaos.definitions import prove
from tests.chaos.instants import ZONES, Definition, Verdict, definitions, instants, judge
from tests.chaos.store import powers
from tests.support import long, real_time

# Clock changes: Berlin and St. John's in spring and autumn, and Lord Howe's by half an hour.
CHANGES = ("2026-03-08T04:00", "2026-03-29T00:00", "2026-04-04T13:00", "2026-10-03T14:00", "2026-10-25T00:00",
           "2026-11-01T03:00")  # fmt: skip
BEGIN = datetime(2026, 3, 2, 10, 0, 30, tzinfo=UTC)


@pytest.mark.req("D7")
@pytest.mark.sized
@pytest.mark.parametrize("change", CHANGES)
def test_the_instants_are_those_of_the_product_over_changes_of_clocks(change: str) -> None:
    begin = datetime.fromisoformat(change).replace(tzinfo=UTC)
    until = begin + timedelta(hours=8)
    for one in definitions(long.size(22, 66), begin + timedelta(hours=2), random.Random(1)):
        after_ms, until_ms = begin.timestamp() * 1000, until.timestamp() * 1000
        known = parse_schedule(one.schedule).occurrences(int(after_ms), ZoneInfo(one.zone))
        theirs = [found.at_ms for found in islice(known, 481) if found.at_ms <= until_ms]
        ours = [int(found.timestamp() * 1000) for found in instants(one.schedule, one.zone, begin, until)]
        assert ours == theirs, (one.schedule, one.zone)


def test_all_forms_all_overlaps_and_all_zones_are_among_the_definitions() -> None:
    made = definitions(200, BEGIN, random.Random(1))
    assert {next(iter(one.schedule)) for one in made} == {
        "every_minutes", "hourly_at", "daily_at", "weekly_on", "cron",
    }  # fmt: skip
    assert {one.zone for one in made} == set(ZONES)
    assert len({(next(iter(one.schedule)), one.overlap) for one in made}) == 20


def record(minute: int, second: int = 0, **fields: Any) -> dict[str, Any]:
    due = BEGIN.replace(minute=minute, second=second).isoformat()
    return {"due_at": due, "outcome": "fired", "reason": None, "job_id": f"job-{minute}", **fields}


def broken(runs: list[dict[str, Any]], *, overlap: str = "allow", jitter_s: int = 0) -> list[str]:
    definition = Definition("d", overlap, {"every_minutes": 1}, "UTC", jitter_s, BEGIN, BEGIN)
    verdict = Verdict()
    judge(definition, runs, BEGIN + timedelta(minutes=3), verdict)
    return [text.partition("}: ")[2] or text for text in verdict.breaches]


def test_each_instant_with_one_record_holds() -> None:
    assert broken([record(1), record(2), record(3)]) == []
    assert broken([record(1, 17), record(2, 17), record(3, 17)], jitter_s=40) == []


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([record(1), record(3)], "no record: 2026-03-02T10:02"),
        ([record(1), record(2), record(2, job_id="other"), record(3)], "more than one record: 2026-03-02T10:02"),
        ([record(1), record(2), record(3), record(9)], "a record of no instant: 2026-03-02T10:09"),
        ([record(1), record(2, job_id="job-1"), record(3)], "a job of more than one instant"),
        ([record(1), record(2, job_id=None), record(3)], "or of none"),
        ([record(1), record(2, 5), record(3)], "not delayed alike"),
    ],
)  # fmt: skip
def test_a_broken_promise_is_told(runs: list[dict[str, Any]], said: str) -> None:
    found = broken(runs)
    assert len(found) == 1
    assert said in found[0]


def test_only_the_last_instant_of_a_queue_may_still_wait() -> None:
    assert broken([record(1), record(2)], overlap="queue") == []
    assert len(broken([record(1)], overlap="queue")) == 1


@pytest.mark.system
@pytest.mark.timeout(240)
@pytest.mark.skipif(
    not powers().clock,
    reason="minutes must pass: it needs libfaketime (`make faketime`), and a server that runs under it",
)
@real_time.PROCESSES
@pytest.mark.req("D7")
async def test_kills_of_the_leader_and_steps_of_the_clock_neither_lose_nor_double_an_instant(
    tmp_path: Path,
) -> None:
    figures = await prove(kills=3, count=33, seed=2, directory=tmp_path)
    assert figures["broken"] == []
    assert figures["instants"] > 33
    assert figures["outcomes"]["fired"] > 0
