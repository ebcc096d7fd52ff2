"""Definitions on calendars: one record for each instant, over moves, late instants, backfills and edits."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime

import pytest

from jqmaster.domain.definitions.definition import TimeTrigger
from jqmaster.domain.definitions.run import RunOutcome, job_id_of
from jqmaster.domain.definitions.schedule import Occurrence
from jqmaster.domain.jobs.job import JobState
from jqmaster.errors import InvalidError, OutcomeUnknownError, StoreUnavailableError
from jqmaster.service.definitions.firing import firing_of
from jqmaster.service.definitions.reader import DefinitionReader
from jqmaster.store.definitions.definitions import InstantVerdict
from jqmaster.store.definitions.documents import decode_definition, encode_definition
from tests.support.calendars import DAY_MS, Calendars
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("D33")


@pytest.fixture
def one(world: StoreWorld) -> Calendars:
    return Calendars(world)


def at(text: str) -> int:
    return round(datetime.fromisoformat(f"2027-{text}+00:00").timestamp() * 1000)


@pytest.mark.req("D7")
async def test_days_off_are_recorded_as_skipped_with_the_name_of_the_day(one: Calendars) -> None:
    await one.off("2027-01-18", "2027-01-20")
    await one.on("skip_holidays")
    await one.pass_to("01-21 12:00")
    assert await one.told() == [
        "01-16 skipped calendar: Saturday",
        "01-17 skipped calendar: Sunday",
        "01-18 skipped calendar: Off 18",
        "01-19 fired",
        "01-20 skipped calendar: Off 20",
        "01-21 fired",
    ]
    runs = await one.definitions.runs()
    assert [bool(run.job_id) for run in runs] == [False, False, False, True, False, True]
    assert one.definitions.figures.outcomes[RunOutcome.SKIPPED] == 4


async def test_work_that_only_runs_on_days_off(one: Calendars) -> None:
    await one.off("2027-01-20")
    await one.on("only_holidays")
    await one.pass_to("01-20 12:00")
    assert await one.told() == [
        "01-16 fired",
        "01-17 fired",
        "01-18 skipped calendar: workday",
        "01-19 skipped calendar: workday",
        "01-20 fired",
    ]


@pytest.mark.req("D7")
async def test_moved_instants_and_the_days_own_leave_a_record_and_a_job_each(one: Calendars) -> None:
    await one.off("2027-01-18")
    await one.on("next_workday")
    await one.pass_to("01-19 12:00")
    # Saturday, Sunday and a holiday in a row.
    assert sorted(await one.told()) == [
        "01-19 fired",
        "01-19 fired from 01-16",
        "01-19 fired from 01-17",
        "01-19 fired from 01-18",
    ]
    runs = await one.definitions.runs()
    known = await one.definitions.firing.known("nightly")
    did = known.stored.definition.did
    assert {run.job_id for run in runs} == {job_id_of(did, run.origin_ms) for run in runs}
    assert {await one.world.state(run.job_id) for run in runs} == {JobState.READY}
    assert len({run.due_at_ms for run in runs}) == 1
    # Nothing fires again.
    await one.definitions.fire()
    assert len(await one.definitions.runs()) == 4


async def test_instants_move_back_over_the_beginning_of_a_month(one: Calendars) -> None:
    await one.off("2027-02-01")
    await one.on("previous_workday", schedule={"cron": "30 2 1 * *"})
    await one.pass_to("02-02 12:00")
    assert await one.told() == ["01-29 fired from 02-01"]
    await one.pass_to("03-01 12:00")
    assert await one.told() == ["01-29 fired from 02-01", "03-01 fired"]


@pytest.mark.req("D8")
async def test_late_instants_over_a_holiday(one: Calendars) -> None:
    """`latest` fires the newest instant on a workday, and days off are not missed."""
    await one.off("2027-01-20")
    await one.on("skip_holidays")
    await one.pass_to("01-20 12:00", fires=False)
    await one.definitions.fire()
    assert await one.told() == [
        "01-16 skipped calendar: Saturday",
        "01-17 skipped calendar: Sunday",
        "01-18 missed late",
        "01-19 fired caught_up",
        "01-20 skipped calendar: Off 20",
    ]


@pytest.mark.req("D8")
async def test_late_moved_instants_follow_catch_up(one: Calendars) -> None:
    await one.off()
    await one.on("next_workday", catch_up="all", max_catch_up=2)
    await one.pass_to("01-18 12:00", fires=False)
    await one.definitions.fire()
    assert sorted(await one.told()) == [
        "01-18 fired caught_up", "01-18 fired caught_up from 01-17", "01-18 missed late from 01-16",
    ]  # fmt: skip


async def test_overlap_applies_to_instants_that_come_to_the_same_time(one: Calendars) -> None:
    await one.off()
    await one.on("next_workday", overlap="forbid")
    await one.pass_to("01-18 12:00")
    assert sorted(await one.told()) == [
        "01-18 fired from 01-16", "01-18 skipped overlap", "01-18 skipped overlap from 01-17",
    ]  # fmt: skip
    await one.on("next_workday", overlap="queue")
    await one.pass_to("01-25 12:00")
    # The Monday's job waits for the earlier one; the moved instants gave way to it.
    newest = [line for line in await one.told() if line.startswith("01-25")]
    assert newest == ["01-25 skipped superseded from 01-23", "01-25 skipped superseded from 01-24"]
    known = await one.definitions.firing.known("nightly")
    assert (known.clock.queued_ms, known.clock.queued_from_ms) == (at("01-25 02:30"), None)
    await one.on("next_workday", overlap="replace")
    await one.pass_to("02-01 12:00")
    newest = [line for line in await one.told() if line.startswith("02-01")]
    assert sorted(newest) == [
        "02-01 fired",
        "02-01 skipped superseded from 01-30",
        "02-01 skipped superseded from 01-31",
    ]


async def test_a_moved_instant_that_waits_for_a_job_keeps_its_origin(one: Calendars) -> None:
    await one.off()
    await one.on("next_workday", overlap="queue", schedule={"weekly_on": ["sat"], "at": "02:30"})
    await one.editor.run("nightly", "me")
    await one.pass_to("01-18 12:00")
    known = await one.definitions.firing.known("nightly")
    assert (known.clock.queued_ms, known.clock.queued_from_ms) == (at("01-18 02:30"), at("01-16 02:30"))
    worker = await one.world.worker("report")
    (job,) = await one.world.claim(worker, "report")
    await one.world.settlements.settle_success(worker, [(job.job_id, job.token, b"\xc0")])
    await one.definitions.fire()
    await one.pass_to("01-18 13:00")
    assert (await one.told())[-1] == "01-18 fired from 01-16"


async def test_a_paused_definition_records_moved_instants(one: Calendars) -> None:
    await one.off()
    await one.on("next_workday", enabled=False, schedule={"weekly_on": ["sat"], "at": "02:30"})
    await one.pass_to("01-18 12:00")
    assert await one.told() == ["01-18 skipped paused from 01-16"]


async def test_a_backfill_starts_nothing_on_days_off_and_finds_moved_instants(one: Calendars) -> None:
    await one.off("2027-01-06")
    await one.on("skip_holidays")
    begin_ms, end_ms = at("01-04 00:00"), at("01-11 00:00")
    dry = await one.editor.backfill("nightly", begin_ms, end_ms, "me", is_dry=True)
    assert (dry.due, dry.fired_before) == (4, 0)
    done = await one.editor.backfill("nightly", begin_ms, end_ms, "me", is_dry=False)
    assert done.started == 4
    assert [line[:11] for line in await one.told()] == [
        "01-04 fired",
        "01-05 fired",
        "01-07 fired",
        "01-08 fired",
    ]
    await one.on("next_workday")
    done = await one.editor.backfill("nightly", begin_ms, end_ms, "me", is_dry=False)
    # The weekend of 2 and 3 January moves to Monday the 4th; the 6th moves to the 7th.
    assert (done.due, done.fired_before, done.started) == (7, 4, 3)
    again = await one.editor.backfill("nightly", begin_ms, end_ms, "me", is_dry=False)
    assert (again.fired_before, again.started) == (7, 0)
    # A calendar that puts the same instants elsewhere starts none of them again.
    await one.off("2027-01-05")
    again = await one.editor.backfill("nightly", begin_ms, end_ms, "me", is_dry=False)
    assert again.started == 0


@pytest.mark.req("D7")
async def test_an_edit_of_the_calendar_counts_for_later_instants_alone(one: Calendars) -> None:
    """Nobody fires for days. The instants before the edit go by the former holidays, the others by the new ones."""
    await one.off()
    await one.on("skip_holidays", catch_up="all")
    await one.pass_to("01-19 12:00", fires=False)
    await one.off("2027-01-18", "2027-01-19", "2027-01-20")
    await one.pass_to("01-21 12:00", fires=False)
    await one.definitions.fire()
    assert await one.told() == [
        "01-16 skipped calendar: Saturday",
        "01-17 skipped calendar: Sunday",
        "01-18 fired caught_up",
        "01-19 fired caught_up",
        "01-20 skipped calendar: Off 20",
        "01-21 fired caught_up",
    ]


@pytest.mark.req("D7")
async def test_the_leader_plans_anew_what_a_dead_master_left(
    one: Calendars, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master that changed the calendar dies before it planned the definitions anew."""
    await one.off()
    await one.on("skip_holidays", catch_up="all")

    async def die(_: str) -> None:
        raise RuntimeError("dead")

    await one.pass_to("01-18 12:00", fires=False)
    with monkeypatch.context() as patched:
        patched.setattr(one.calendars, "_follow", die)
        with pytest.raises(RuntimeError):
            await one.off("2027-01-18", "2027-01-19")
    known = await one.definitions.firing.known("nightly")
    assert known.is_behind
    await one.pass_to("01-20 12:00", fires=False)
    # Another change has to wait until all definitions know this one.
    await one.off("2027-01-18", "2027-01-19", "2027-01-21")
    assert (await one.told())[-3:] == [
        "01-18 fired caught_up", "01-19 skipped calendar: Off 19", "01-20 fired caught_up",
    ]  # fmt: skip
    await one.definitions.fire()
    assert not (await one.definitions.firing.known("nightly")).is_behind


@pytest.mark.req("D7")
async def test_an_instant_that_was_brought_forward_fires_once_though_its_holiday_is_taken_away(
    one: Calendars,
) -> None:
    await one.off("2027-01-25")
    await one.on("previous_workday", schedule={"weekly_on": ["mon"], "at": "02:30"})
    await one.pass_to("01-23 12:00")
    assert await one.told() == ["01-18 fired", "01-22 fired from 01-25"]
    await one.off()
    await one.pass_to("01-26 12:00")
    assert await one.told() == ["01-18 fired", "01-22 fired from 01-25"]
    # The same without days at all, and with another rule.
    await one.on(None, schedule={"weekly_on": ["mon"], "at": "02:30"})
    await one.pass_to("02-02 12:00")
    assert (await one.told())[-1] == "02-01 fired"


@pytest.mark.req("D7")
async def test_an_instant_that_waited_fires_at_once_when_its_day_becomes_a_workday(one: Calendars) -> None:
    await one.off()
    await one.on("next_workday", skip_late_after_s=30 * 86_400)
    await one.pass_to("01-17 12:00")
    assert await one.told() == []
    await one.off(weekend=())
    assert await one.told() == []
    await one.definitions.fire()
    assert await one.told() == ["01-16 fired", "01-17 fired"]
    await one.pass_to("01-18 12:00")
    assert (await one.told())[-1] == "01-18 fired"
    # A change of the rule leaves them in the same way.
    await one.off()
    await one.pass_to("01-23 12:00")
    await one.on(None, skip_late_after_s=30 * 86_400)
    await one.definitions.fire()
    assert (await one.told())[-1] == "01-23 fired"
    await one.on("next_workday", skip_late_after_s=30 * 86_400)
    await one.pass_to("01-24 12:00")
    await one.on("skip_holidays", skip_late_after_s=30 * 86_400)
    await one.definitions.fire()
    assert (await one.told())[-1] == "01-24 skipped calendar: Sunday"


async def test_many_overdue_instants_are_recorded_step_by_step(
    one: Calendars, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.service.definitions.firing.MAX_INSTANTS", 5)
    await one.off("2027-01-18", "2027-01-19")
    await one.on("next_workday", schedule={"hourly_at": 30}, catch_up="all")
    await one.pass_to("01-19 12:00")
    before = len(await one.definitions.runs())
    await one.off(weekend=())
    await one.definitions.fire()
    runs = await one.definitions.runs()
    # From Saturday 00:30 to Tuesday 11:30.
    assert len(runs) - before == 3 * 24 + 12
    assert len({run.origin_ms for run in runs}) == len(runs)


async def test_the_next_instant_that_people_see_starts_a_job(one: Calendars) -> None:
    await one.off("2027-01-18")
    await one.on("skip_holidays")

    async def now_ms() -> int:
        return one.world.now_ms

    reader = DefinitionReader(one.world.definitions, now_ms)
    shown = await reader.get("nightly")
    assert shown.next_due_ms == at("01-19 02:30")
    assert shown.known.calendar
    await one.pass_to("01-16 12:00", fires=False)
    page = await reader.page("", 10)
    # The instant of this Saturday has no record yet.
    assert page.definitions[0].next_due_ms == at("01-19 02:30")


async def test_days_need_a_calendar(one: Calendars) -> None:
    with pytest.raises(InvalidError) as refused:
        await one.on("skip_holidays")
    assert [error.loc for error in refused.value.errors] == [("days", "calendar")]
    await one.off()
    with pytest.raises(InvalidError) as refused:
        await one.on("next_workday", schedule={"every_minutes": 5})
    assert [error.loc for error in refused.value.errors] == [("days", "rule")]
    with pytest.raises(InvalidError) as refused:
        await one.on("skip_holidays", kind="event", schedule=None, event_type="order.paid")
    assert [error.loc for error in refused.value.errors] == [("days",)]


async def test_releases_without_days_cannot_read_such_a_definition(one: Calendars) -> None:
    """The former release knows the kinds `time` and `event`, and refuses to read or fire anything else."""
    await one.off()
    await one.on("skip_holidays")
    known = await one.definitions.firing.known("nightly")
    raw = encode_definition(known.stored)
    assert b"time_on_days" in raw
    assert decode_definition("nightly", raw) == known.stored
    plain = replace(known.stored.definition.of_time, days=None)
    without = encode_definition(
        replace(known.stored, definition=replace(known.stored.definition, trigger=plain))
    )
    assert b"days" not in without
    assert b"time" in without


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the instants of schedules that anybody reads."""
    counts = Counter[str]()
    instants = TimeTrigger.instants

    def counting(trigger: TimeTrigger, after_ms: int) -> Iterator[Occurrence]:
        for occurrence in instants(trigger, after_ms):
            counts["instants"] += 1
            yield occurrence

    monkeypatch.setattr(TimeTrigger, "instants", counting)
    return counts


def off_for(days: int) -> list[str]:
    """Return the days from 16 January 2027 on."""
    first = date(2027, 1, 16).toordinal()
    return [date.fromordinal(first + n).isoformat() for n in range(days)]


@pytest.mark.parametrize("catch_up", ["skip", "latest", "all"])
async def test_a_step_over_a_long_outage_reads_hardly_more_than_it_records(
    one: Calendars, read: Counter[str], catch_up: str
) -> None:
    await one.off(*off_for(80))
    await one.on("skip_holidays", schedule={"every_minutes": 1}, catch_up=catch_up, max_catch_up=50)
    one.world.pass_ms(100 * DAY_MS)
    known = await one.definitions.firing.known("nightly")
    read.clear()
    firing = firing_of(known, one.world.now_ms)
    assert len(firing.entries) == 200
    # The rest of Friday comes first.
    assert {entry.verdict for entry in firing.entries} == {InstantVerdict.MISSED}
    assert read["instants"] <= 200 + 1 + {"skip": 0, "latest": 1, "all": 50}[catch_up]
    # The same amid the days off, which are gone over at once.
    amid = replace(known, clock=replace(known.clock, handled_ms=at("02-01 00:00")))
    read.clear()
    firing = firing_of(amid, one.world.now_ms)
    assert {entry.left_out for entry in firing.entries} == {"Off 1"}
    assert read["instants"] <= 200 + 1 + 1 + {"skip": 0, "latest": 1, "all": 50}[catch_up]


async def test_the_newest_instants_fire_after_an_outage_that_ends_on_a_day_off(one: Calendars) -> None:
    await one.off("2027-01-18", "2027-01-19")
    await one.on("skip_holidays", schedule={"hourly_at": 0}, catch_up="all", max_catch_up=3)
    one.world.now_ms = at("01-19 12:30")
    await one.definitions.fire()
    runs = await one.definitions.runs()
    fired = [run.due_at_ms for run in runs if run.outcome is RunOutcome.FIRED]
    assert sorted(fired) == [at("01-15 21:00"), at("01-15 22:00"), at("01-15 23:00")]
    assert Counter(run.outcome for run in runs) == {
        RunOutcome.FIRED: 3,
        RunOutcome.MISSED: 12,
        RunOutcome.SKIPPED: 3 * 24 + 24 + 13 - 24,
    }


async def test_a_backfill_over_days_off_reads_no_more_than_it_counts(
    one: Calendars, read: Counter[str]
) -> None:
    await one.off("2027-01-20", weekend=())
    await one.on("only_holidays", schedule={"every_minutes": 10})
    one.world.now_ms = at("01-22 12:00")
    await one.definitions.fire()
    read.clear()
    found = await one.editor.backfill(
        "nightly", at("01-22 12:00") - 20_000 * DAY_MS, one.world.now_ms, "me", is_dry=True
    )
    assert (found.due, found.started) == (24 * 6, None)
    assert read["instants"] <= 24 * 6 + 10
    # A range without any instant costs no more.
    read.clear()
    found = await one.editor.backfill("nightly", 0, at("01-15 08:00"), "me", is_dry=True)
    assert found.due == 0
    assert read["instants"] <= 2


async def test_a_backfill_of_too_many_instants_is_refused_after_reading_these_alone(
    one: Calendars, read: Counter[str]
) -> None:
    await one.off(weekend=())
    await one.on("skip_holidays", schedule={"every_minutes": 1})
    read.clear()
    with pytest.raises(InvalidError, match="definition is not valid") as refused:
        await one.editor.backfill("nightly", 0, one.world.now_ms, "me", is_dry=True)
    assert [error.loc for error in refused.value.errors] == [("to",)]
    assert read["instants"] <= 1_001


async def test_a_store_that_fails_after_the_change_leaves_no_doubt_that_the_calendar_was_changed(
    one: Calendars, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.off("2027-01-18")

    async def away() -> None:
        raise StoreUnavailableError("the store does not answer")

    monkeypatch.setattr(one.store, "users", away)
    with pytest.raises(OutcomeUnknownError, match="the change was made, but then: the store does not answer"):
        await one.off("2027-01-19")
    (stored,) = (await one.store.get(["office"])).values()
    assert [str(day) for day in stored.calendar.holidays] == ["2027-01-19"]
