"""The two audit logs, read as one: pages backwards, entries after a cursor, and the export."""

from typing import Any

import pytest

from jqmaster.errors import InvalidError, StaleEpochError
from jqmaster.store.identity import audit
from jqmaster.store.identity.audit import (
    DAMAGED,
    MAX_LATE_MS,
    AuditEntry,
    AuditStore,
    changes_of,
    encode_entry,
)
from jqmaster.store.identity.audit_export import AuditExportStore, Numbered
from jqmaster.store.identity.logins import LoginStore
from tests.support.store import StoreWorld
from tests.support.waiting import wait_until

pytestmark = pytest.mark.rule("E6.4")


def entry(target: str, action: str = "job.cancel") -> bytes:
    return encode_entry(who="ada", action=action, target=target, before={"n": 1}, after=None)


async def change(world: StoreWorld, *targets: str) -> None:
    await AuditStore(world.shard).write_all([entry(target) for target in targets])


async def access(world: StoreWorld, target: str) -> None:
    await LoginStore(world.shard).log_refused(target, entry(target, "login.refused"))


async def _is_a_millisecond_after(world: StoreWorld, began: tuple[int, int]) -> bool:
    seconds, microseconds = await world.redis.time()
    return (seconds - began[0]) * 1_000_000 + microseconds - began[1] >= 1_000


def targets(entries: list[AuditEntry]) -> list[str]:
    return [one.target for one in entries]


async def pages_of(world: StoreWorld, limit: int, **wanted: Any) -> list[list[str]]:
    """Return the targets of all pages, the newest first."""
    store, cursor, found = AuditStore(world.shard), None, []
    while True:
        page = await store.page(limit=limit, cursor=cursor, **wanted)
        found.append(targets(page.entries))
        cursor = page.next_cursor
        if cursor is None:
            return found


async def test_an_entry_is_read_back_as_it_was_written(world: StoreWorld) -> None:
    await AuditStore(world.shard).write(entry("j1"))
    page = await AuditStore(world.shard).page(limit=5, cursor=None)
    (one,) = page.entries
    assert (one.log, one.who, one.action, one.target) == ("changes", "ada", "job.cancel", "j1")
    assert (one.before, one.after, one.times, one.since_ms) == ({"n": 1}, None, 1, None)
    assert page.next_cursor is None


async def test_an_empty_log_has_one_empty_page_from_which_readers_can_follow(world: StoreWorld) -> None:
    store = AuditStore(world.shard)
    page = await store.page(limit=5, cursor=None)
    assert (page.entries, page.next_cursor) == ([], None)
    await change(world, "later")
    assert page.follow_from
    assert targets((await store.after(page.follow_from, limit=5)).entries) == ["later"]


async def test_both_logs_come_in_one_order_page_by_page(world: StoreWorld) -> None:
    for n in range(4):
        await change(world, f"c{n}")
        await access(world, f"a{n}")
    every = [target for page in await pages_of(world, 3) for target in page]
    assert sorted(every) == sorted([*(f"c{n}" for n in range(4)), *(f"a{n}" for n in range(4))])
    for log in "ca":
        assert [target for target in every if target[0] == log] == [f"{log}{n}" for n in (3, 2, 1, 0)]
    assert await pages_of(world, 2, log="access") == [["a3", "a2"], ["a1", "a0"]]
    assert await pages_of(world, 2, log="changes", target="c1") == [["c1"]]


async def test_entries_are_found_by_their_author_and_by_time(world: StoreWorld) -> None:
    world = world.on_store_time()
    store = AuditStore(world.shard)

    async def has_passed(ms: int) -> bool:
        seconds, microseconds = await world.redis.time()
        return bool(seconds * 1000 + microseconds // 1000 > ms)

    at_ms: list[int] = []
    for n, who in enumerate(("user:Ada", "user:otto", "token:ada's (7)")):
        await store.write(encode_entry(who=who, action="job.cancel", target=f"c{n}", before=None, after={}))
        at_ms.append((await store.page(limit=1, cursor=None)).entries[0].at_ms)
        await wait_until(lambda: has_passed(at_ms[-1]), what="the next entry is of another millisecond")
    assert await pages_of(world, 5, who="ADA") == [["c2", "c0"]]
    assert await pages_of(world, 5, since_ms=at_ms[1]) == [["c2", "c1"]]
    assert await pages_of(world, 5, until_ms=at_ms[1]) == [["c1", "c0"]]
    between: dict[str, Any] = {"since_ms": at_ms[0], "until_ms": at_ms[1], "who": "user"}
    assert [one for page in await pages_of(world, 1, **between) for one in page] == ["c1", "c0"]
    assert await pages_of(world, 5, until_ms=at_ms[0] - 1) == [[]]
    # Entries from two hours later are not even read.
    assert await pages_of(world, 5, until_ms=at_ms[0] - 2 * MAX_LATE_MS) == [[]]


async def test_entries_that_come_while_somebody_reads_are_not_mixed_into_older_pages(
    world: StoreWorld,
) -> None:
    await change(world, "c0", "c1", "c2")
    store = AuditStore(world.shard)
    first = await store.page(limit=1, cursor=None)
    # Within a millisecond of the store, entries of the two logs have no order.
    began = await world.redis.time()
    await wait_until(lambda: _is_a_millisecond_after(world, began))
    await access(world, "new")
    rest = await store.page(limit=5, cursor=first.next_cursor)
    assert (targets(first.entries), targets(rest.entries)) == (["c2"], ["c1", "c0"])
    assert rest.follow_from is None


async def test_a_rare_target_is_looked_for_in_bounded_steps(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "MAX_LOOKED_AT", 2)
    monkeypatch.setattr(audit, "MAX_SEARCHED", 4)
    await change(world, "rare", *(f"c{n}" for n in range(6)))
    assert await pages_of(world, 5, target="rare") == [[], ["rare"]]
    # Once an entry is found, the page ends earlier.
    await change(world, "rare")
    assert await pages_of(world, 5, target="rare") == [["rare"], [], ["rare"]]


async def test_a_flood_of_changes_does_not_make_an_access_event_look_gone(world: StoreWorld) -> None:
    await access(world, "mallory")
    await change(world, *(f"c{n}" for n in range(audit.MAX_LOOKED_AT + 1)))
    page = await AuditStore(world.shard).page(limit=5, cursor=None, target="mallory")
    assert targets(page.entries) == ["mallory"]
    assert page.next_cursor is None


async def test_a_search_ends_at_a_number_of_bytes(world: StoreWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "ENTRIES_PER_READ", 2)
    monkeypatch.setattr(audit, "MAX_BYTES_SEARCHED", 300)
    await change(world, "rare", *(f"c{n}" for n in range(8)))
    pages = await pages_of(world, 5, target="rare")
    assert [one for page in pages for one in page] == ["rare"]
    assert len(pages) > 2


async def test_readers_follow_both_logs_in_the_order_of_time(world: StoreWorld) -> None:
    store = AuditStore(world.shard)
    await change(world, "before")
    page = await store.page(limit=5, cursor=None)
    world.pass_ms(1)
    await change(world, "c1", "c2")
    await access(world, "a1")
    assert page.follow_from
    first = await store.after(page.follow_from, limit=2)
    assert first.next_cursor
    rest = await store.after(first.next_cursor, limit=5)
    assert sorted(targets(first.entries) + targets(rest.entries)) == ["a1", "c1", "c2"]
    assert rest.next_cursor
    assert (await store.after(rest.next_cursor, limit=5)).entries == []


async def test_cursors_of_the_release_before_which_knew_one_log_are_understood(world: StoreWorld) -> None:
    await change(world, "c0", "c1")
    store = AuditStore(world.shard)
    newest = (await store.page(limit=1, cursor=None)).entries[0]
    assert targets((await store.page(limit=5, cursor=newest.id)).entries) == ["c0"]
    await change(world, "c2")
    assert targets((await store.after(newest.id, limit=5)).entries) == ["c2"]


@pytest.mark.parametrize("cursor", ["", "1", "x-1", "1-1_2-2_3-3", "1-1_", "-1-1"])
async def test_a_cursor_that_no_page_gave_is_refused(world: StoreWorld, cursor: str) -> None:
    store = AuditStore(world.shard)
    for asked in (store.page(limit=1, cursor=cursor), store.after(cursor, limit=1)):
        with pytest.raises(InvalidError) as refused:
            await asked
        assert refused.value.code == "invalid_cursor"


async def test_an_entry_that_cannot_be_read_is_shown_as_damaged_and_hides_no_other(world: StoreWorld) -> None:
    await change(world, "c0")
    await world.redis.xadd(world.shard.keys.audit, {"at_ms": "5", "entry": b"\xc1"})
    await change(world, "c1")
    page = await AuditStore(world.shard).page(limit=5, cursor=None)
    assert [(one.action, one.target) for one in page.entries] == [
        ("job.cancel", "c1"), (DAMAGED, ""), ("job.cancel", "c0"),
    ]  # fmt: skip
    await world.redis.delete(world.shard.keys.audit)


async def test_changes_tell_the_kind_of_object_and_which(world: StoreWorld) -> None:
    await change(world, "j1", "j1", "j2")
    stored = await world.redis.xrange(world.shard.keys.audit)
    flat = [(position, [part for pair in fields.items() for part in pair]) for position, fields in stored]
    assert changes_of(flat) == {("job", "j1"), ("job", "j2")}


# --- the export


def exported(found: list[Numbered]) -> list[tuple[str, int, str]]:
    return [(one.entry.log, one.number, one.entry.target) for one in found]


async def test_the_export_goes_on_behind_what_was_noted(world: StoreWorld) -> None:
    store = AuditExportStore(world.shard)
    start = await store.load()
    assert start == {"changes": ("0-0", 0), "access": ("0-0", 0)}
    await change(world, "c1", "c2")
    await access(world, "a1")
    found = await store.read(start, limit=10)
    assert sorted(exported(found)) == [("access", 1, "a1"), ("changes", 1, "c1"), ("changes", 2, "c2")]
    await store.save(world.epoch, found)
    await change(world, "c3")
    assert exported(await store.read(await store.load(), limit=10)) == [("changes", 3, "c3")]
    with pytest.raises(StaleEpochError):
        await store.save("0:former", found)


async def test_a_log_with_more_to_come_holds_back_what_the_other_got_later(world: StoreWorld) -> None:
    store = AuditExportStore(world.shard)
    await change(world, "c1", "c2", "c3")
    # This entry is later than all changes, also by the store's clock, which numbers the entries.
    newest = (await world.redis.xrevrange(world.shard.keys.audit, count=1))[0][0].decode()
    later = f"{int(newest.partition('-')[0]) + 1}-0"
    await world.redis.xadd(world.shard.keys.access, {"at_ms": "1", "entry": entry("a1")}, id=later)
    start = await store.load()
    first = await store.read(start, limit=2)
    assert exported(first) == [("changes", 1, "c1"), ("changes", 2, "c2")]
    await store.save(world.epoch, first)
    assert exported(await store.read(await store.load(), limit=2)) == [
        ("changes", 3, "c3"),
        ("access", 1, "a1"),
    ]
