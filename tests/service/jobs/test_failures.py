"""Groups of failures as a caller without the right to content sees them: several kinds appear as one."""

import pytest

from jqmaster.domain.content.content import ContentAccess
from jqmaster.domain.content.redact import Redactor
from jqmaster.domain.jobs.failure_group import failure_group_id
from jqmaster.domain.jobs.failures import HOUR_MS, GroupedFailures
from jqmaster.service.jobs.failures import FailureReader
from jqmaster.store.identity.audit import encode_entry
from jqmaster.store.operations.history import CountedFailures, HistoryStore
from tests.support.store import StoreWorld

pytestmark = pytest.mark.req("P8", "D18")

ENTRY = encode_entry(who="ada", action="failure.ignore", target="x", before=None, after=None)


class Failing:
    """Two kinds of failures with one name and cause, and what a viewer sees of them."""

    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.history = HistoryStore(world.shard, master_id="master-1")
        self._number = 0

    async def fail(self, message: str, count: int = 1) -> None:
        self._number += 1
        group_id = failure_group_id("work", "error", message)
        group = CountedFailures(group_id, "work", "error", message, count, f"job of {message}")
        await self.history.add_failures(self._number, [group])

    async def ignore(self, message: str, until_ms: int = 0) -> None:
        group_id = failure_group_id("work", "error", message)
        (group,) = [one for one in await self.history.failure_groups() if one.id == group_id]
        ignore = group.ignored(who="ada", now_ms=self.world.now_ms, until_ms=until_ms, reason=message)
        await self.history.ignore(group_id, ignore, ENTRY)

    async def seen(self) -> GroupedFailures:
        (group,) = await FailureReader(self.history, self.world.records).groups(
            ContentAccess(False, Redactor(()))
        )
        assert group.message == ""
        return group


async def test_several_kinds_are_ignored_together_for_as_long_as_each_is(world: StoreWorld) -> None:
    failing = Failing(world)
    for message in ("disk", "network"):
        await failing.fail(message, 3)
    await failing.ignore("disk")
    assert not (await failing.seen()).is_ignored(world.now_ms)
    await failing.ignore("network", world.now_ms + 5 * HOUR_MS)
    assert (await failing.seen()).is_ignored(world.now_ms)
    # Together they have more failures an hour than one of them had, but neither has changed.
    await failing.fail("disk", 9)
    await failing.fail("network", 99)
    group = await failing.seen()
    assert (group.count, group.changed(world.now_ms)) == (114, None)
    assert group.changed(world.now_ms + 5 * HOUR_MS) == "time"
    await failing.ignore("network")
    assert (await failing.seen()).is_ignored(world.now_ms)
    await failing.fail("disk", 50)
    assert (await failing.seen()).changed(world.now_ms) == "more"
