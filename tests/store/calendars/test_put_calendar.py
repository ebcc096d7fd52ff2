"""Calendars in the store: created, changed, removed, and refused while something stands against it."""

from dataclasses import replace
from datetime import date

import msgpack
import pytest

from jqmaster.domain.calendars.calendar import Calendar, CalendarSource
from jqmaster.errors import ConflictError, DamagedError
from jqmaster.store import codec
from jqmaster.store.calendars.calendars import CalendarChange, CalendarOutcome, CalendarStore
from jqmaster.store.calendars.documents import StoredCalendar, decode_calendar, encode_calendar, replaced
from jqmaster.store.health.document_checks import check_definitions
from tests.support.calendars import Calendars
from tests.support.store import START_MS, StoreWorld

pytestmark = pytest.mark.req("D33")
ENTRY = codec.pack({"action": "calendar.put"})
LATER, ETAG = "f" * 16, "0" * 16
CALENDAR = Calendar(
    "japan", CalendarSource("JP"), {date(2027, 1, 1): "New Year's Day"}, ("sun",), date(2028, 12, 31)
)


def stored(calendar: Calendar = CALENDAR) -> StoredCalendar:
    return StoredCalendar(calendar, ETAG, 1, 2, "me")


async def made(store: CalendarStore, one: StoredCalendar) -> CalendarOutcome:
    return await store.change(CalendarChange(one.calendar.name, None, one, ENTRY))


async def found_by_fsck(world: StoreWorld) -> list[str]:
    return [one.detail async for one in check_definitions(world.shard.client, world.shard.keys)]


def test_a_calendar_is_read_as_it_was_written() -> None:
    one = stored()
    assert decode_calendar("japan", encode_calendar(one)) == one
    changed = replaced(one, replace(CALENDAR, weekend=()), LATER, 1)
    assert decode_calendar("japan", encode_calendar(changed)) == changed
    assert (changed.former, changed.former_etag, changed.changed_at_ms) == (CALENDAR, ETAG, 2)
    for raw in (b"", ETAG.encode() + b"\xc1", ETAG.encode() + msgpack.packb({"source": {"planet": "Mars"}})):
        with pytest.raises(DamagedError):
            decode_calendar("japan", raw)


async def test_a_calendar_is_created_changed_and_removed(world: StoreWorld) -> None:
    store, one = CalendarStore(world.shard), stored()
    assert await made(store, one) is CalendarOutcome.OK
    assert await store.get(["japan", "nowhere"]) == {"japan": one}
    assert await store.names() == ["japan"]
    assert await store.get([]) == {}
    # Somebody else was quicker.
    async with world.unchanged():
        assert await made(store, one) is CalendarOutcome.CHANGED
        other = replace(one, etag=LATER)
        assert await store.change(CalendarChange("japan", other, other, ENTRY)) is CalendarOutcome.CHANGED
    new = replaced(one, replace(CALENDAR, weekend=()), LATER, 5)
    assert await store.change(CalendarChange("japan", one, new, ENTRY)) is CalendarOutcome.OK
    assert await store.get(["japan"]) == {"japan": new}
    assert await store.change(CalendarChange("japan", new, None, ENTRY)) is CalendarOutcome.OK
    assert await store.get(["japan"]) == {}
    assert await store.users() == {}


async def test_there_is_a_most_of_calendars(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jqmaster.store.calendars.calendars.MAX_CALENDARS", 1)
    store = CalendarStore(world.shard)
    await made(store, stored())
    async with world.unchanged():
        with pytest.raises(ConflictError, match="no more can be made") as refused:
            await made(store, stored(replace(CALENDAR, name="other")))
    assert refused.value.code == "too_many_calendars"


async def test_a_calendar_in_use_stays_and_names_its_definitions(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jqmaster.store.calendars.calendars.MAX_NAMED", 1)
    one = Calendars(world)
    await one.off()
    await one.on("skip_holidays")
    present = (await one.store.get(["office"]))["office"]
    assert await one.store.users() == {"office": ["nightly"]}
    removal = CalendarChange("office", present, None, ENTRY)
    async with world.unchanged():
        with pytest.raises(ConflictError, match="definitions nightly: change their days first"):
            await one.store.change(removal)
    await world.redis.hset(world.shard.keys.definition_calendars, "ghost", "office")
    with pytest.raises(ConflictError, match="and 1 more"):
        await one.store.change(removal)
    assert await found_by_fsck(world) == ["definition ghost does not exist"]
    await world.redis.hdel(world.shard.keys.definition_calendars, "ghost")
    await one.on(None)
    assert await one.store.users() == {}
    assert await one.store.change(removal) is CalendarOutcome.OK


async def test_a_change_waits_for_definitions_that_do_not_know_the_last_one(world: StoreWorld) -> None:
    one = Calendars(world)
    await one.off()
    await one.on("skip_holidays")
    present = (await one.store.get(["office"]))["office"]
    second = replaced(present, replace(present.calendar, weekend=()), LATER, world.now_ms)
    assert await one.store.change(CalendarChange("office", present, second, ENTRY)) is CalendarOutcome.OK
    # The change makes the definition due, so that the leader plans it anew.
    assert await world.redis.zscore(world.shard.keys.definitions_due_on_days, "nightly") == world.now_ms
    third = replaced(second, present.calendar, ETAG, world.now_ms)
    async with world.unchanged():
        assert (
            await one.store.change(CalendarChange("office", second, third, ENTRY)) is CalendarOutcome.BEHIND
        )
    await one.definitions.fire()
    assert await one.store.change(CalendarChange("office", second, third, ENTRY)) is CalendarOutcome.OK
    await one.definitions.fire()
    assert await found_by_fsck(world) == []


async def test_a_definition_that_nobody_can_read_is_passed_over(world: StoreWorld) -> None:
    one, keys = Calendars(world), world.shard.keys
    await one.off()
    await one.on("skip_holidays")
    whole = await world.redis.hget(keys.definitions, "nightly")
    await world.redis.hset(keys.definitions, "nightly", b"x" * 16 + b"\xc1")
    # The second change finds that the definition does not know the first one.
    for n in (18, 19, 20):
        assert not (await one.off(f"2027-01-{n}")).is_new
    (stored,) = (await one.store.get(["office"])).values()
    assert list(stored.calendar.holidays.values()) == ["Off 20"]
    # Readable again, it goes by the present calendar.
    await world.redis.hset(keys.definitions, "nightly", whole)
    await one.pass_to("01-20 12:00")
    assert (await one.told())[-2:] == ["01-19 fired", "01-20 skipped calendar: Off 20"]
    assert await found_by_fsck(world) == []


async def test_a_leader_that_knows_no_days_finds_none_of_these_definitions_due(world: StoreWorld) -> None:
    """A leader of release 0.3 reads `definitions_due` alone, 200 definitions at a time, and cannot read these."""
    one, keys = Calendars(world), world.shard.keys
    await one.off()
    due, on_days = keys.definitions_due, keys.definitions_due_on_days

    async def listed() -> tuple[bool, bool]:
        scores = [await world.redis.zscore(key, "nightly") for key in (due, on_days)]
        return scores[0] is not None, scores[1] is not None

    await one.on(None)
    assert await listed() == (True, False)
    await one.on("skip_holidays")
    assert await listed() == (False, True)
    await one.pass_to("01-18 12:00")
    assert (await one.told())[-1] == "01-18 fired"
    assert await listed() == (False, True)
    await one.off("2027-01-19")
    assert await listed() == (False, True)
    await one.editor.run("nightly", "me")
    assert await listed() == (False, True)
    # It is found if nobody looks at it.
    await world.redis.zrem(on_days, "nightly")
    assert await found_by_fsck(world) == ["definition nightly is due before its next check"]
    await world.redis.zadd(on_days, {"nightly": world.now_ms})
    await one.on("skip_holidays", ends_at=START_MS)
    assert await listed() == (False, False)
    await one.on(None)
    assert await listed() == (True, False)
    await one.on("next_workday")
    await one.editor.delete("nightly", "me")
    assert await listed() == (False, False)
    assert await found_by_fsck(world) == []


async def test_a_definition_takes_the_calendar_as_it_is_now(world: StoreWorld) -> None:
    """A definition is written only if its calendar is the one by which it was planned."""
    one = Calendars(world)
    await one.off()
    await one.on("skip_holidays")
    known = await one.definitions.firing.known("nightly")
    memory = replace(known.clock.memory, etag=LATER)
    stale = replace(known, clock=replace(known.clock, memory=memory))
    async with world.unchanged():
        assert not await one.definitions.change("nightly", known, stale)


async def test_damage_is_reported_and_stops_only_its_definition(
    world: StoreWorld, caplog: pytest.LogCaptureFixture
) -> None:
    one, keys = Calendars(world), world.shard.keys
    await one.off()
    await one.on("skip_holidays")
    await one.definitions.put("plain")
    whole = await world.redis.hget(keys.calendars, "office")
    for raw in (b"damaged", None):
        if raw is None:
            await world.redis.hdel(keys.calendars, "office")
        else:
            await world.redis.hset(keys.calendars, "office", raw)
        with pytest.raises(DamagedError):
            await one.definitions.firing.known("nightly")
        assert await one.store.readable() == []
        (detail,) = [text for text in await found_by_fsck(world) if "calendar" in text]
        assert detail.endswith("there is no calendar office") == (raw is None)
        world.pass_ms(86_400_000)
        assert (await world.definitions.due(10)).found
        await one.definitions.firing.fire_due(world.epoch)
    assert "it does not fire" in caplog.text
    assert await one.definitions.runs("plain")
    await world.redis.hset(keys.calendars, "office", whole)
    await world.redis.hdel(keys.definition_calendars, "nightly")
    assert await found_by_fsck(world) == ["definition nightly is not listed with its calendar office"]
    await world.redis.hset(world.shard.keys.definition_calendars, "nightly", "office")
