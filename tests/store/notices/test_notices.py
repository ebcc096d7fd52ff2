"""Notices in the store: single changes by people, and the memory of each, which the leader keeps."""

from dataclasses import replace

import pytest

from jqmaster.domain.notices.conditions import When
from jqmaster.domain.notices.incident import Line, Message, MessageKind, NoticeIncident, NoticeState
from jqmaster.domain.notices.notice import (
    Channel,
    Destination,
    GroupBy,
    Notice,
    parse_notice_matcher,
)
from jqmaster.errors import ConflictError, DamagedError, StaleEpochError
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.named_documents import new_etag
from jqmaster.store.notices import notices
from jqmaster.store.notices.documents import StoredNotice, StoredState, StoredWatermarks
from jqmaster.store.notices.notices import NoticeStore
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("M10")

AUDITED = encode_entry(who="user:ada", action="notice.put", target="n", before=None, after=None)


def stored(name: str = "n", when: When = When.JOB_FAILED) -> StoredNotice:
    is_matched = when is When.JOB_FAILED
    document = {"field": "name", "op": "eq", "value": "mail"} if is_matched else None
    notice = Notice(
        name,
        "0" * 16,
        when,
        (
            Destination(Channel.MAIL, ("ops@shop.example",)),
            Destination(Channel.WEBHOOK, ("https://a.example/",), "s"),
        ),
        parse_notice_matcher(document, when),
        threshold=3,
        group_by=GroupBy.NAME,
        at_most_every_s=60,
        muted_until_ms=5,
        description="who is told",
    )
    return StoredNotice(notice, new_etag(), 1, 2, "user:ada")


def memory() -> NoticeState:
    incident = NoticeIncident(
        "mail", 1, 2, 3, [Line("no", 3, "job")], 1, 2, is_present=False, acknowledged_by="user:ada"
    )
    told = Message("m1", MessageKind.TEST, 3, "mail", 2, 1, 1, 2, (("no", 2, "job"),), "user:ada")
    return NoticeState({"mail": incident}, [told], [replace(told, id="m0")])


@pytest.fixture
def store(world: StoreWorld) -> NoticeStore:
    return NoticeStore(world.shard)


async def test_a_notice_is_read_as_it_was_written(store: NoticeStore) -> None:
    first, second = stored(), stored("later", When.LEADER_CHANGED)
    for one in (first, second):
        assert await store.put(one.notice.name, None, one, AUDITED)
    assert await store.get("n") == (first, StoredState())
    for _ in range(2):  # the second time from memory
        assert (await store.all()).notices == {"later": second, "n": first}
    assert await store.get("nobody") == (None, StoredState())


async def test_a_change_of_what_was_changed_since_is_refused(store: NoticeStore) -> None:
    first = stored()
    assert await store.put("n", None, first, AUDITED)
    assert not await store.put("n", None, stored(), AUDITED)
    changed = stored()
    assert await store.put("n", first, changed, AUDITED)
    assert not await store.put("n", first, None, AUDITED)
    assert (await store.all()).notices == {"n": changed}


async def test_there_are_only_so_many(store: NoticeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "MAX_NOTICES", 1)
    assert await store.put("n", None, stored(), AUDITED)
    with pytest.raises(ConflictError, match="there are 1 notices"):
        await store.put("other", None, stored("other"), AUDITED)


async def test_the_memory_is_replaced_whole_and_goes_with_its_notice(
    world: StoreWorld, store: NoticeStore
) -> None:
    first = stored()
    await store.put("n", None, first, AUDITED)
    kept = StoredState(of="n job_failed", state=memory())
    watermarks = StoredWatermarks(by_condition={"job_failed": 7})
    assert await store.put_states({"n": kept}, watermarks, epoch=world.epoch)
    read = await store.all()
    assert (read.states, read.watermarks, read.now_ms) == ({"n": kept}, watermarks, world.now_ms)
    assert await store.get("n") == (first, kept)
    default = StoredState(state=memory())
    assert await store.put_states({notices.DEFAULT_STATE: default})
    assert (await store.all()).default == default
    assert await store.put("n", first, None, AUDITED)
    assert await store.get("n") == (None, StoredState())
    assert not await store.put_states({"n": StoredState()})


async def test_a_memory_that_changed_since_it_was_read_or_of_a_former_leader_is_not_replaced(
    world: StoreWorld, store: NoticeStore
) -> None:
    await store.put("n", None, stored(), AUDITED)
    _, read = await store.get("n")
    assert await store.put_states({"n": StoredState()})
    assert not await store.put_states({"n": read}, StoredWatermarks())
    with pytest.raises(StaleEpochError):
        await store.put_states({}, StoredWatermarks(), epoch="0")
    assert (await store.all()).watermarks == StoredWatermarks()


async def test_unreadable_records_are_left_out_or_begun_anew(world: StoreWorld, store: NoticeStore) -> None:
    for name in ("damaged", "n"):
        await store.put(name, None, stored(name), AUDITED)
    k = world.shard.keys
    await world.redis.hset(k.notices, "damaged", b"0123456789abcdef\xc1")
    await world.redis.hset(k.notice_states, "n", b"0123456789abcdef\xc1")
    await world.redis.hset(k.notice_states, notices.WATERMARKS, b"fedcba9876543210\xc1")
    read = await store.all()
    assert set(read.notices) == {"n"}
    assert read.states == {"n": StoredState("0123456789abcdef")}
    assert read.watermarks == StoredWatermarks("fedcba9876543210")
    with pytest.raises(DamagedError, match="notice damaged: its document cannot be read"):
        await store.get("damaged")
    assert await store.put_states({"n": read.states["n"]}, read.watermarks)
