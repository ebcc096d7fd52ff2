"""Queues have a constraint and a target. A change says what was done if it fails halfway, and the hosts of the settings
reach the targets of queues that are there."""

from collections.abc import Mapping
from typing import Any

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.content.content import no_access
from jqmaster.domain.fireworq.queue import FireworqQueue
from jqmaster.errors import (
    InvalidError,
    JqmasterError,
    OutcomeUnknownError,
    OverloadedError,
    PreconditionFailedError,
    StoreUnavailableError,
)
from jqmaster.live_value import LiveValue
from jqmaster.service.constraints.editor import ConstraintEditor
from jqmaster.service.constraints.key_values import KeyValues
from jqmaster.service.fireworq.queues import FireworqQueues
from jqmaster.service.targets.editor import TargetEditor
from jqmaster.store.constraints.usage import UsageStore
from jqmaster.store.fireworq.fireworq import FireworqStore
from jqmaster.store.targets.targets import TargetStore
from tests.support.admin import admin_of
from tests.support.store import StoreWorld

pytestmark = [pytest.mark.req("J19"), pytest.mark.req("M1")]

HOSTS = ("*.run.example", "app.example")
TARGET: Mapping[str, Any] = {
    "url": {"from_": "argument.url"}, "method": "POST", "body": "fireworq", "headers": {"X-Key": "secret"},
    "secret": "whsec_" + "A" * 32, "max_running": 3, "max_running_per_host": None, "ok": ["2xx"], "final": [400],
    "timeout": None, "not_ready_for_s": 60.0, "allow_hosts": ["*"], "description": "by hand",
}  # fmt: skip


class FailingEditor(TargetEditor):
    """Fails at one target."""

    fault: tuple[str, JqmasterError] | None = None

    async def put(self, name: str, *args: Any, **options: Any) -> bool:
        if self.fault is not None and name == self.fault[0]:
            raise self.fault[1]
        return await super().put(name, *args, **options)


class Queues:
    def __init__(self, world: StoreWorld) -> None:
        self.world = world
        self.targets = TargetStore(world.shard)
        self.editor = FailingEditor(self.targets, world.shard.now_ms)
        self.store = FireworqStore(world.shard)
        usage = UsageStore(world.shard, world.records)
        values = KeyValues(usage, world.lanes, SystemClock())
        self.constraints = ConstraintEditor(
            world.rule_store,
            world.constraints,
            usage,
            world.shard.now_ms,
            values,
            audience=LiveValue(no_access(())),
        )
        self.queues = FireworqQueues(
            self.store,
            self.constraints,
            self.editor,
            self.targets,
            SystemClock(),
            default_queue=None,
            hosts=HOSTS,
        )

    async def make(self, name: str, **fields: Any) -> None:
        await self.store.put_queue(FireworqQueue(name), b"\x80")
        await self.editor.put(
            f"fireworq:{name}", {**TARGET, "names": [f"fireworq/{name}"], **fields}, who="ada"
        )

    async def hosts(self) -> dict[str, tuple[str, ...]]:
        found = (await self.targets.load()).targets
        return {name.removeprefix("fireworq:"): stored.target.allow_hosts for name, stored in found.items()}


@pytest.fixture
def known(world: StoreWorld) -> Queues:
    return Queues(world)


async def test_jobs_may_be_sent_to_these_hosts_only(known: Queues) -> None:
    for name in ("a", "damaged"):
        await known.make(name)
    await known.make("same", allow_hosts=list(HOSTS))
    # Jobs do not choose this address.
    await known.make("fixed", url="https://other.example/work", allow_hosts=[])
    await known.store.put_queue(FireworqQueue("lost"), b"\x80")
    # This target does not belong to a queue.
    await known.editor.put("hook", {**TARGET, "names": ["hook"]}, who="ada")
    keys = known.world.shard.keys
    await admin_of(known.world.shard.client).hset(keys.fireworq_queues, "damaged", b"\xc1")
    before = (await known.targets.load()).targets
    await known.queues.allow_hosts("master m")
    assert await known.hosts() == {"a": HOSTS, "damaged": HOSTS, "same": HOSTS, "fixed": (), "hook": ("*",)}
    after = (await known.targets.load()).targets
    assert {name for name, stored in after.items() if stored.etag != before[name].etag} == {
        "fireworq:a",
        "fireworq:damaged",
    }
    # Nothing else of them changes.
    changed = after["fireworq:a"].target
    assert (changed.headers, changed.description) == ({"X-Key": "secret"}, "by hand")
    assert changed.secret == before["fireworq:a"].target.secret
    async with known.world.unchanged():
        await known.queues.allow_hosts("master m")


async def test_one_target_that_cannot_be_changed_does_not_stop_the_others(known: Queues) -> None:
    for name in ("a", "b", "c"):
        await known.make(name)
    known.editor.fault = ("fireworq:b", InvalidError("no"))
    with pytest.raises(InvalidError):
        await known.queues.allow_hosts("master m")
    assert await known.hosts() == {"a": HOSTS, "b": ("*",), "c": HOSTS}
    # Somebody who changed it meanwhile is met again in the next round.
    known.editor.fault = ("fireworq:b", PreconditionFailedError("changed"))
    await known.queues.allow_hosts("master m")
    known.editor.fault = None
    await known.queues.allow_hosts("master m")
    assert (await known.hosts())["b"] == HOSTS


async def test_a_queue_whose_target_cannot_be_stored_may_have_been_changed(known: Queues) -> None:
    known.editor.fault = ("fireworq:mail", StoreUnavailableError("the store does not answer"))
    with pytest.raises(
        OutcomeUnknownError, match="the constraint of the queue was changed, but then: the store"
    ):
        await known.queues.put_queue(FireworqQueue("mail"), "ada")
    assert (await known.world.rule_store.load()).named("fireworq:mail")
    known.editor.fault = None
    await known.queues.put_queue(FireworqQueue("mail"), "ada")
    assert await known.hosts() == {"mail": HOSTS}


async def test_a_queue_whose_constraint_cannot_be_deleted_may_have_been_changed(
    known: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    await known.queues.put_queue(FireworqQueue("mail"), "ada")

    async def fail(*_: Any) -> None:
        raise OverloadedError("too many changes")

    with monkeypatch.context() as patch:
        patch.setattr(known.constraints, "delete", fail)
        with pytest.raises(
            OutcomeUnknownError, match="the target of the queue was deleted, but then: too many"
        ):
            await known.queues.delete_queue("mail", "ada")
    assert await known.hosts() == {}
    await known.queues.delete_queue("mail", "ada")
    assert not (await known.world.rule_store.load()).named("fireworq:mail")
