"""The limits of a model's API, as examples/llm sets them up: with its stand-in for the API, in virtual time."""

import heapq
from collections import Counter
from typing import Any

import msgpack
import pytest

from examples.llm.__main__ import LEAST_THROUGHPUT, MOST_OFF, argument
from examples.llm.model import Model
from examples.llm.plans import JOB, TENANTS, WEIGHTS, constraints_for
from jqmaster.domain.constraints.constraint import Constraint, new_cid
from jqmaster.domain.constraints.limit_kinds import KINDS
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld

WINDOW_S = 4.0
TOKENS, REQUESTS = 200_000, 500
STEP_MS = 50
SLOTS = 40


def constraint_of(name: str, document: dict[str, Any]) -> Constraint:
    return Constraint(
        name=name,
        cid=new_cid(is_weighted="weight" in document),
        matcher=parse_matcher(document["matcher"]),
        key=parse_path(document["key"]) if "key" in document else None,
        **{kind.name: kind.parse(document[kind.name]) for kind in KINDS if kind.name in document},
    )


@pytest.mark.req("D30")
async def test_twenty_tenants_use_nine_tenths_of_a_models_limits_by_their_weights_and_are_never_refused(
    world: StoreWorld,
) -> None:
    """The example's own command runs ten minutes of it with real processes."""
    constraints = ConstrainedWorld(world)
    await constraints.put(
        *(constraint_of(*one) for one in constraints_for(REQUESTS, TOKENS, WINDOW_S).items())
    )
    model = Model(REQUESTS, TOKENS, WINDOW_S, clock=lambda: world.now_ms / 1000)
    for tenant, plan in TENANTS.items():
        count = 40 * WEIGHTS[plan]
        await constraints.enqueue_many([argument(tenant, number) for number in range(count)], JOB)
    worker = await world.worker(JOB, max_jobs=SLOTS)
    running: list[tuple[int, int, Any, int]] = []
    began_ms, before, claimed = world.now_ms, Counter[str](), 0
    # After the first window, which may begin with all of its room at once, three more.
    while (elapsed_ms := world.now_ms - began_ms) < 4 * WINDOW_S * 1000:
        if not before and elapsed_ms >= WINDOW_S * 1000:
            before = Counter(model.used)
        while running and running[0][0] <= world.now_ms:
            _, _, job, used = heapq.heappop(running)
            ended = [(job.job_id, job.token, b"")]
            reported = {job.job_id: {"tokens": used * 1000}}
            assert await world.settlements.settle_success(worker, ended, reported) == [True]
        await constraints.open_gates()
        for job in (
            await constraints.claim(worker, JOB, limit=SLOTS - len(running)) if len(running) < SLOTS else ()
        ):
            given = msgpack.unpackb(job.record.argument)
            _, _, used = model.ask(given["tenant"], given["max_tokens"], given["number"])
            claimed += 1
            heapq.heappush(running, (world.now_ms + used // 5, claimed, job, used))
        world.pass_ms(STEP_MS)
    used_by = {tenant: model.used[tenant] - before[tenant] for tenant in TENANTS}
    total, weights = sum(used_by.values()), sum(WEIGHTS[plan] for plan in TENANTS.values())
    assert model.refused == 0
    assert total >= LEAST_THROUGHPUT * 3 * TOKENS
    # A tenant's first job of the period may have been the last of the turn before.
    off = {
        tenant: used_by[tenant] / (total * WEIGHTS[plan] / weights) - 1 for tenant, plan in TENANTS.items()
    }
    assert {tenant: share for tenant, share in off.items() if abs(share) > MOST_OFF} == {}
