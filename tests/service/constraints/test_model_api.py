"""The limits of a model's API, as examples/llm sets them up: with its stand-in for the API, in virtual time."""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgpack
import pytest

from examples.llm.__main__ import MAX_OFF, MIN_THROUGHPUT, argument
from examples.llm.model import Model
from examples.llm.plans import JOB, TENANTS, WEIGHTS, constraints_for
from jqmaster.domain.constraints.constraint import Constraint, new_cid
from jqmaster.domain.constraints.limit_kinds import KINDS
from jqmaster.domain.jobs.outcome import UsedUnits
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.store.jobs.claims import ClaimedJob
from tests.support.constraints import ConstrainedWorld
from tests.support.store import StoreWorld

WINDOW_S = 4.0
TOKENS, REQUESTS = 200_000, 500
STEP_MS = 50
SLOTS = 60
STALL_EVERY_MS, STALL_MS = 1_700, 500


def constraint_of(name: str, document: dict[str, Any]) -> Constraint:
    return Constraint(
        name=name,
        cid=new_cid(is_weighted="weight" in document),
        matcher=parse_matcher(document["matcher"]),
        key=parse_path(document["key"]) if "key" in document else None,
        **{kind.name: kind.parse(document[kind.name]) for kind in KINDS if kind.name in document},
    )


class Api:
    """The model's API in virtual time, and the jobs whose calls are on their way to it.

    * `late_ms`: how long after its claim the call of a job reaches the API.
    * `tells`: whether reports tell the time by which the API had counted a call.
    """

    def __init__(
        self, constraints: ConstrainedWorld, worker: str, late_ms: Callable[[], int], *, tells: bool
    ) -> None:
        self.world = constraints.world
        self.model = Model(REQUESTS, TOKENS, WINDOW_S, clock=lambda: self.world.now_ms / 1000)
        self._constraints = constraints
        self._worker = worker
        self._late_ms = late_ms
        self._tells = tells
        # By time and number: the call of a job that arrives, or the answer with what the call has used.
        self._coming: list[tuple[int, int, ClaimedJob, int | None]] = []
        self._numbers = itertools.count()

    async def step(self) -> None:
        """Let the calls and answers arrive that are due, and claim as many jobs as there are slots."""
        now_ms = self.world.now_ms
        while self._coming and self._coming[0][0] <= now_ms:
            _, _, job, used = heapq.heappop(self._coming)
            if used is None:
                given = msgpack.unpackb(job.record.argument)
                _, _, used = self.model.ask(given["tenant"], given["max_tokens"], given["number"])
                self._expect(now_ms + used // 5, job, used)
            else:
                await self._end(job, used, now_ms - used // 5)
        await self._constraints.open_gates()
        room = SLOTS - len(self._coming)
        for job in await self._constraints.claim(self._worker, JOB, limit=room) if room else ():
            self._expect(now_ms + self._late_ms(), job, None)

    def _expect(self, at_ms: int, job: ClaimedJob, used: int | None) -> None:
        heapq.heappush(self._coming, (at_ms, next(self._numbers), job, used))

    async def _end(self, job: ClaimedJob, used: int, called_at_ms: int) -> None:
        ended = [(job.job_id, job.token, b"")]
        # A call reached the API at any time of the step that took it up.
        told = UsedUnits(called_at_ms + STEP_MS if self._tells else 0, {"tokens": used * 1000})
        assert await self.world.settlements.settle_success(self._worker, ended, {job.job_id: told}) == [True]


async def api_of(world: StoreWorld, late_ms: Callable[[], int], *, tells: bool) -> Api:
    constraints = ConstrainedWorld(world)
    await constraints.put(
        *(constraint_of(*one) for one in constraints_for(REQUESTS, TOKENS, WINDOW_S).items())
    )
    for tenant, plan in TENANTS.items():
        count = 40 * WEIGHTS[plan]
        await constraints.enqueue_many([argument(tenant, number) for number in range(count)], JOB)
    return Api(constraints, await world.worker(JOB, max_jobs=SLOTS), late_ms, tells=tells)


def stalls(world: StoreWorld, rng: random.Random) -> Callable[[], int]:
    """Return the lateness of calls from a machine that is busy, and that stands still for half a second now and then:
    then all calls on their way arrive at its end."""

    def late_ms() -> int:
        since_ms = world.now_ms % STALL_EVERY_MS
        return max(0, STALL_MS - since_ms) + rng.randrange(10, 100)

    return late_ms


@pytest.mark.req("D30")
@pytest.mark.parametrize("is_late", [False, True], ids=["prompt", "late"])
async def test_twenty_tenants_use_nine_tenths_of_a_models_limits_by_their_weights_and_are_never_refused(
    world: StoreWorld, is_late: bool
) -> None:
    """The API judges by its own window, in which a call counts from its arrival on. The example's own command runs
    minutes of it with real processes."""
    api = await api_of(world, stalls(world, random.Random(7)) if is_late else lambda: 0, tells=True)
    began_ms, before = world.now_ms, Counter[str]()
    # After the first window, which may begin with all of its room at once, three more.
    while (elapsed_ms := world.now_ms - began_ms) < 4 * WINDOW_S * 1000:
        if not before and elapsed_ms >= WINDOW_S * 1000:
            before = Counter(api.model.used)
        await api.step()
        world.pass_ms(STEP_MS)
    used_by = {tenant: api.model.used[tenant] - before[tenant] for tenant in TENANTS}
    total, weights = sum(used_by.values()), sum(WEIGHTS[plan] for plan in TENANTS.values())
    assert api.model.refused == 0
    assert total >= MIN_THROUGHPUT * 3 * TOKENS
    # A tenant's first job of the period may have been the last of the turn before.
    off = {
        tenant: used_by[tenant] / (total * WEIGHTS[plan] / weights) - 1 for tenant, plan in TENANTS.items()
    }
    assert {tenant: share for tenant, share in off.items() if abs(share) > MAX_OFF} == {}


@pytest.mark.req("D30")
async def test_masters_that_do_not_learn_when_calls_arrived_send_too_many(world: StoreWorld) -> None:
    """Late calls move into the next window of the API. This is what reports prevent."""
    api = await api_of(world, stalls(world, random.Random(7)), tells=False)
    began_ms = world.now_ms
    while not api.model.refused and world.now_ms - began_ms < 4 * WINDOW_S * 1000:
        await api.step()
        world.pass_ms(STEP_MS)
    assert api.model.refused > 0
