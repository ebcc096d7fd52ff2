"""One restore at a time: the hold of a shard is exclusive, and a restore that lost it writes nothing."""

import re

import pytest

from jqmaster.errors import ConflictError
from jqmaster.store.backup import loading
from jqmaster.store.backup.hold import HOLD_MS, RestoreHold, held
from jqmaster.store.backup.values import Record
from jqmaster.store.link.shard import Shard
from tests.store.backup.test_copy_and_load import other

__all__ = ["other"]
pytestmark = pytest.mark.req("D31")


async def test_a_second_restore_is_refused_until_the_first_has_ended(other: Shard) -> None:
    async with held(other):
        with pytest.raises(ConflictError, match="another restore is at work") as refused:
            async with held(other):
                pass
        (seconds,) = re.findall(r"run the command again in (\d+) s", str(refused.value))
        assert 0 < int(seconds) * 1000 <= HOLD_MS
        assert await loading.is_empty(other), "a hold is no data"
    async with held(other):
        pass


async def test_a_restore_that_was_killed_keeps_others_away_no_longer_than_its_hold(other: Shard) -> None:
    killed = RestoreHold(other)
    await killed.take()
    await other.client.command("PEXPIRE", other.keys.restore_hold, 5_000)
    await killed.renew()
    left_ms = await other.client.command("PTTL", other.keys.restore_hold)
    assert HOLD_MS - 5_000 < left_ms <= HOLD_MS


async def test_a_restore_that_stood_still_for_too_long_writes_nothing_into_that_of_another(
    other: Shard,
) -> None:
    kept = other.keys.result("of the second")
    async with held(other) as first:
        await other.client.command("UNLINK", other.keys.restore_hold)  # as if its time were over
        async with held(other) as second:
            await loading.load(second, [Record(b"result:of the second", 0, 0, 0, [b"x"])])
            with pytest.raises(ConflictError, match="stood still for longer than 30 s"):
                await loading.clear(first, keeps_mark=False)
            with pytest.raises(ConflictError, match="run the command again when no other restore is running"):
                await loading.load(first, [Record(b"result:of the first", 0, 0, 0, [b"x"])])
            await first.give_back()
            await second.renew()
        found = {key.decode() async for page in loading.key_pages(other) for key in page}
        assert found == {kept}
