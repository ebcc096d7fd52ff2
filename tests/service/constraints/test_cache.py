"""A master repeats what it does under constraints until it knows their newest edition."""

from typing import Any

import pytest

from jqmaster.domain.constraints.constraint_set import ConstraintSet
from jqmaster.errors import OutcomeUnknownError, OverloadedError
from jqmaster.service.constraints.cache import MAX_REPEATS
from jqmaster.store.jobs.placement import StaleConstraints
from jqmaster.store.link.pages import MAX_PER_CALL
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld


async def test_constraints_that_keep_changing_refuse_a_call_that_has_done_nothing(world: StoreWorld) -> None:
    tries = []

    async def act(constraints: ConstraintSet) -> None:
        tries.append(constraints)
        raise StaleConstraints

    with pytest.raises(OverloadedError, match="the constraints change too fast"):
        await world.constraints.under(act)
    assert len(tries) == MAX_REPEATS


async def test_constraints_that_keep_changing_leave_the_outcome_of_a_large_push_unknown(
    world: StoreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [world.spec() for _ in range(2 * MAX_PER_CALL)]
    client = world.acceptance._client
    run_all, calls = client.run_all, list[int]()

    async def run_then_change(requests: Any, **options: Any) -> Any:
        calls.append(len(requests))
        replies = await run_all(requests, **options)
        if len(calls) == 1:
            await ConstrainedWorld(world).limit(concurrency=1)
        return replies

    async def reload() -> Any:
        return world.constraints.current

    monkeypatch.setattr(client, "run_all", run_then_change)
    known = world.constraints.current

    async def push(_: ConstraintSet) -> Any:
        return await world.acceptance.enqueue(specs, known.constraint_set, is_whole=True)

    with pytest.raises(OutcomeUnknownError, match="a part was carried out, but then: the constraints change"):
        await world.constraints.under(push)
    stored = await client.pipeline([("EXISTS", world.shard.keys.job(one.id)) for one in specs])
    assert (sum(stored), calls[0]) == (MAX_PER_CALL, 1)
