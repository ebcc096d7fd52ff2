import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from jqmaster.domain.jobs.job import JobState
from jqmaster.domain.jobs.outcome import Decision
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties import dispatcher as dispatcher_module
from jqmaster.runtime.duties.dispatcher import FINISH_WITHIN_S
from jqmaster.runtime.duties.fleet import SHORTEST_PAUSE_S
from jqmaster.runtime.outbound.worker_client import WorkerClient
from jqmaster.store.jobs.claims import Claim, ClaimedJob, NotClaimed, PreparedClaims, WantedClaim
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from jqmaster.store.link.wake import WorkersChanged
from jqmaster.store.operations.looks import LookStore
from tests.runtime.conftest import OFFER_S, Dispatching, waking
from tests.support import fake_worker as fake
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.egress import loopback_guard
from tests.support.listening import OwnListener
from tests.support.server import StoreServer
from tests.support.store import StoreWorld
from tests.support.unique import unique
from tests.support.waiting import wait_until

pytestmark = real_time.LOOPS

# Where a test shows that nothing happens, it waits long enough for anything that would happen.
WATCH_S = 0.4


# --- the normal way


@pytest.mark.req("J10", "J3")
async def test_a_job_reaches_its_worker_signed_and_whole(dispatching: Dispatching) -> None:
    world = dispatching.world
    worker = await dispatching.worker(prefix="/jq")
    await dispatching.start()
    job_id = await world.enqueue(argument={"a": [1, None, b"x"]}, timeout_ms=1500, headers={"trace": "1"})
    await wait_until(lambda: worker.started)
    (push,) = worker.pushes
    assert (push.path, push.is_signed) == ("/jq/jobs", True)
    assert push.headers["content-type"] == "application/msgpack"
    job = await world.get(job_id)
    assert push.fields | {"jobs": None} == {
        "worker_id": worker.id, "epoch": int(world.epoch.split(":")[0]), "store_time_ms": world.now_ms, "jobs": None,
    }  # fmt: skip
    assert push.jobs == [
        {
            "job_id": job_id, "attempt": 1, "token": job.token, "fence": job.fence, "phase": "run", "name": "work",
            "argument": {"a": [1, None, b"x"]}, "timeout": 1.5, "not_after_ms": world.now_ms + 1500,
            "lease_until_ms": world.now_ms + 15_000, "headers": {"trace": "1"},
        }
    ]  # fmt: skip
    assert (job.state, job.worker_id) == (JobState.RUNNING, worker.id)


@pytest.mark.req("S7")
async def test_accepted_jobs_with_uniqueness_keys_are_confirmed_at_once(dispatching: Dispatching) -> None:
    """Until then no push may replace them. Others are confirmed by the next heartbeat."""
    world = dispatching.world
    worker = await dispatching.worker()
    keyed, plain = world.spec(unique=unique()), world.spec()
    await world.acceptance.enqueue([plain, keyed])
    await dispatching.start()
    await wait_until(lambda: len(worker.started) == 2)

    async def is_confirmed() -> bool:
        return (await world.get(keyed.id)).is_confirmed

    await wait_until(is_confirmed)
    assert not (await world.get(plain.id)).is_confirmed


@pytest.mark.req("S6")
async def test_an_idle_dispatcher_starts_a_job_without_waiting_for_its_poll(dispatching: Dispatching) -> None:
    worker = await dispatching.worker()
    worker.works(dispatching.world.settlements)
    await dispatching.start()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for n in range(20):
        await dispatching.world.enqueue()
        await wait_until(lambda n=n: len(worker.started) == n + 1)
    # With polls alone, this would take twenty seconds.
    assert loop.time() - began_s < 10


@pytest.mark.req("S6", "M2")
async def test_a_job_that_the_counts_of_the_store_hide_is_claimed_without_a_message(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "POLL_S", 0.05)
    monkeypatch.setattr(dispatcher_module, "LOOKED_POLL_S", 0.05)
    monkeypatch.setattr(dispatcher_module, "DOUBT_S", 1.0)
    world, looks = dispatching.world, LookStore(dispatching.world.shard)
    worker = await dispatching.worker()
    dispatcher = await dispatching.start(wakes_itself=False)
    await wait_until(lambda: dispatcher._exhausted, what="a claim finds nothing")
    dispatcher.take_look(await looks.look(world.epoch))
    await world.enqueue()
    await admin_of(world.shard.client).delete(world.shard.keys.ready_counts)

    async def is_started() -> bool:
        look = await looks.look(world.epoch)
        assert not look.is_ready
        dispatcher.take_look(look)
        return bool(worker.started)

    await wait_until(is_started, what="the job is claimed")
    await admin_of(world.shard.client).delete(world.shard.keys.ready_counts)


@pytest.mark.req("S6", "M2")
async def test_while_looks_fail_the_dispatcher_polls_as_if_there_were_none(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_module, "POLL_S", 0.05)
    monkeypatch.setattr(dispatcher_module, "LOOKED_POLL_S", 3600.0)
    world = dispatching.world
    worker = await dispatching.worker()
    dispatcher = await dispatching.start(wakes_itself=False)
    await wait_until(lambda: dispatcher._exhausted, what="a claim finds nothing")
    dispatcher.take_look(await LookStore(world.shard).look(world.epoch))
    assert dispatcher.is_idle
    dispatcher.be_blind()
    assert not dispatcher.is_idle
    job_id = await world.enqueue()
    await wait_until(lambda: worker.started, what="the job is found without a message or a look")
    assert worker.started[0][0] == job_id


@pytest.mark.req("J12")
async def test_the_smallest_priority_is_pushed_first_and_the_oldest_within(dispatching: Dispatching) -> None:
    worker = await dispatching.worker(max_jobs=2)
    jobs = [(n % 3, await dispatching.world.enqueue(priority=n % 3)) for n in range(9)]
    worker.works(dispatching.world.settlements)
    await dispatching.start()
    await wait_until(lambda: len(worker.started) == 9)
    assert [job_id for job_id, _ in worker.started] == [job_id for _, job_id in sorted(jobs)]


@pytest.mark.req("D11")
async def test_never_above_max_jobs(dispatching: Dispatching) -> None:
    worker = await dispatching.worker(max_jobs=3)
    running: set[str] = set()
    most = 0

    def start(jobs: list[dict[str, object]]) -> None:
        nonlocal most
        running.update(str(job["token"]) for job in jobs)
        most = max(most, len(running))
        worker.spawn(end([(str(job["job_id"]), str(job["token"])) for job in jobs]))

    async def end(claims: list[tuple[str, str]]) -> None:
        await asyncio.sleep(0.005)
        for claim in claims:
            running.discard(claim[1])
            await worker.succeed(dispatching.world.settlements, claim)

    worker.on_start = start
    await dispatching.world.enqueue_many(60)
    await dispatching.start()
    await wait_until(lambda: len(worker.started) == 60)
    assert most == 3


@pytest.mark.req("D11")
async def test_the_least_loaded_worker_takes_the_next(dispatching: Dispatching) -> None:
    workers = [await dispatching.worker(max_jobs=4) for _ in range(3)]
    await dispatching.start()
    for n in range(9):
        await dispatching.world.enqueue()
        await wait_until(lambda n=n: sum(len(w.started) for w in workers) == n + 1)
    assert [len(w.started) for w in workers] == [3, 3, 3]


@pytest.mark.req("D11")
async def test_only_workers_that_know_the_name_get_it(dispatching: Dispatching) -> None:
    one = await dispatching.worker(names=("a",))
    two = await dispatching.worker(names=("b", "c"))
    await dispatching.start()
    for name in "abcabc":
        await dispatching.world.enqueue(name)
    await wait_until(lambda: len(one.started) + len(two.started) == 6)
    assert {job["name"] for push in one.pushes for job in push.jobs} == {"a"}
    assert {job["name"] for push in two.pushes for job in push.jobs} == {"b", "c"}


@pytest.mark.req("D11", "D12")
@pytest.mark.parametrize("flag", ["is_draining", "is_detached"])
async def test_a_draining_or_detached_worker_gets_nothing(dispatching: Dispatching, flag: str) -> None:
    world = dispatching.world
    out, other = await dispatching.worker(), await dispatching.worker()
    await world.redis.hset(world.shard.keys.worker(out.id), flag, "1")
    await dispatching.start()
    await world.enqueue_many(6)
    await wait_until(lambda: len(other.started) == 6)
    assert out.pushes == []


@pytest.mark.req("D11")
async def test_a_silent_worker_gets_nothing_until_it_is_heard(dispatching: Dispatching) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    world.pass_ms(5_500)
    dispatcher = await dispatching.start()
    await world.enqueue()
    await asyncio.sleep(WATCH_S)
    assert worker.pushes == []
    assert await world.workers.renew(worker.id, [], 10)
    dispatcher.wake(WorkersChanged())
    await wait_until(lambda: worker.started)


async def test_under_load_pushes_carry_many_jobs(dispatching: Dispatching) -> None:
    """Batching is natural: no push waits for a full batch, and few jobs travel alone."""
    worker = await dispatching.worker(max_jobs=50)
    worker.works(dispatching.world.settlements, run_s=0.01)
    await dispatching.start()
    specs = [dispatching.world.spec(argument=n) for n in range(1000)]
    for start in range(0, 1000, 100):
        await dispatching.world.acceptance.enqueue(specs[start : start + 100])
    await wait_until(lambda: len(worker.started) == 1000)
    assert len({token for _, token in worker.started}) == 1000
    assert len(worker.pushes) <= 250
    assert max(len(push.jobs) for push in worker.pushes) > 20


async def test_expired_jobs_in_front_do_not_hide_those_behind(dispatching: Dispatching) -> None:
    world = dispatching.world
    worker = await dispatching.worker(max_jobs=5)
    await world.enqueue_many(17, expires_at_ms=world.now_ms + 10)
    good = await world.enqueue()
    world.pass_ms(20)
    began_s = asyncio.get_running_loop().time()
    await dispatching.start()
    await wait_until(lambda: worker.started)
    assert worker.started[0][0] == good
    # In the first round, four claims that find nothing must not each wait for a poll.
    assert asyncio.get_running_loop().time() - began_s < 3


async def test_a_lane_of_the_wrong_type_holds_up_its_own_names_only(dispatching: Dispatching) -> None:
    world = dispatching.world
    redis, key = world.redis, world.shard.keys.ready("broken")
    await redis.set(key, "x")
    await dispatching.worker(names=("broken",))
    other = await dispatching.worker()
    await dispatching.start()
    await world.enqueue_many(3)
    await wait_until(lambda: len(other.started) == 3)
    await dispatching.stop()
    await redis.delete(key)


# --- the push certainly did not arrive, or was refused


async def test_a_worker_that_cannot_be_reached_gives_the_offer_back_at_once(dispatching: Dispatching) -> None:
    """Nothing counts against the job: no attempt, no retry and no loss."""
    world = dispatching.world
    dead = await dispatching.worker()
    dead.die()
    job_id = await world.enqueue(max_retry=0)
    await dispatching.start()
    await wait_until(lambda: _member_failures(dispatching, dead) >= 1)
    good = await dispatching.worker()
    await wait_until(lambda: good.started)
    job = await world.get(job_id)
    assert (job.attempt, job.failures, job.losses, job.worker_id) == (1, 0, 0, good.id)
    assert job.returned_offers >= 1
    assert await world.records.history(job_id) == []


@pytest.mark.parametrize("reason", ["busy", "draining", "too_late", "stale_epoch", "some_future_reason"])
async def test_a_refused_job_goes_to_another_worker_and_the_refuser_is_left_alone_for_a_while(
    dispatching: Dispatching, reason: str
) -> None:
    world = dispatching.world
    refuser = await dispatching.worker(default=fake.reject(reason, 30))
    await dispatching.start()
    job_id = await world.enqueue(max_retry=0)
    await wait_until(lambda: refuser.pushes)
    await wait_until(lambda: _is_ready(world, job_id))
    good = await dispatching.worker()
    await wait_until(lambda: good.started)
    assert len(refuser.pushes) == 1
    job = await world.get(job_id)
    assert (job.attempt, job.failures, job.losses, job.worker_id) == (1, 0, 0, good.id)
    # A worker's word alone deposes nobody: the store knows no newer epoch.
    assert dispatching.stale == 0


async def test_a_refuser_without_a_time_is_asked_again_soon(dispatching: Dispatching) -> None:
    worker = await dispatching.worker(fake.reject("busy"), fake.reject("busy"))
    await dispatching.start()
    await dispatching.world.enqueue()
    await wait_until(lambda: worker.started)
    assert len(worker.pushes) == 3


@pytest.mark.parametrize(
    "behaviour",
    [fake.reject("busy", 0), fake.status(503, Retry_After="0"), fake.status(429, Retry_After="0")],
)
async def test_a_worker_that_asks_for_no_pause_gets_one_all_the_same(
    dispatching: Dispatching, behaviour: fake.Behaviour
) -> None:
    """Otherwise one worker that refuses would keep the store busy with claims and returns."""
    worker = await dispatching.worker(default=behaviour)
    await dispatching.start()
    await dispatching.world.enqueue()
    await wait_until(lambda: len(worker.pushes) >= 4)
    gaps = [b.at_s - a.at_s for a, b in zip(worker.pushes, worker.pushes[1:], strict=False)]
    assert min(gaps) >= SHORTEST_PAUSE_S * 0.9


async def test_accepted_and_refused_jobs_of_one_push_go_separate_ways(dispatching: Dispatching) -> None:
    world = dispatching.world
    mixed = await dispatching.worker(fake.reject("busy", 30, names=["b"]), names=("a", "b"))
    jobs = {name: await world.enqueue(name) for name in "ab"}
    await dispatching.start()
    await wait_until(lambda: mixed.started)
    await wait_until(lambda: _is_ready(world, jobs["b"]))
    assert await world.state(jobs["a"]) == JobState.RUNNING


async def test_a_name_that_a_worker_does_not_know_is_kept_from_it_and_from_nobody_else(
    dispatching: Dispatching,
) -> None:
    world = dispatching.world
    ignorant = await dispatching.worker(default=fake.reject("unknown_name", names=["b"]), names=("a", "b"))
    await dispatching.start()
    job_id = await world.enqueue("b")
    await wait_until(lambda: ignorant.pushes)
    await wait_until(lambda: _is_ready(world, job_id))
    await world.enqueue("a")
    await wait_until(lambda: ignorant.started)
    able = await dispatching.worker(names=("b",))
    await wait_until(lambda: able.started)
    assert Counter(job["name"] for push in ignorant.pushes for job in push.jobs) == {"b": 1, "a": 1}
    assert (await world.get(job_id)).attempt == 1


async def test_a_worker_that_knows_none_of_its_names_is_asked_no_more(dispatching: Dispatching) -> None:
    worker = await dispatching.worker(default=fake.reject("unknown_name"))
    await dispatching.start()
    job_id = await dispatching.world.enqueue()
    await wait_until(lambda: worker.pushes)
    await asyncio.sleep(WATCH_S)
    assert len(worker.pushes) == 1
    assert await dispatching.world.state(job_id) == JobState.READY


@pytest.mark.parametrize("code", [401, 404, 302])
async def test_a_push_that_was_refused_whole_comes_back_at_once(dispatching: Dispatching, code: int) -> None:
    world = dispatching.world
    odd = await dispatching.worker(default=fake.status(code, Location="http://127.0.0.1:9/"))
    job_id = await world.enqueue()
    await dispatching.start()
    await wait_until(lambda: odd.pushes)
    good = await dispatching.worker(max_jobs=1)
    await wait_until(lambda: good.started)
    assert (await world.get(job_id)).attempt == 1


async def test_retry_after_of_a_503_is_honoured(dispatching: Dispatching) -> None:
    worker = await dispatching.worker(fake.status(503, Retry_After="1"))
    await dispatching.start()
    await dispatching.world.enqueue()
    await wait_until(lambda: worker.started)
    first, second = worker.pushes
    assert second.at_s - first.at_s >= 0.9
    assert dispatching.member(worker).breaker.failures == 0


# --- nobody knows whether the push arrived


AMBIGUOUS = [
    fake.accept_and_hang, fake.accept_and_reset, fake.truncated, fake.trickle, fake.huge(), fake.garbage(),
    fake.garbage(b"\x80"), fake.garbage(b"\x82\xa8accepted\xc3\xa8rejected\x90"), fake.status(500), fake.status(502),
    fake.status(202, takes=True), fake.status(204, takes=True), fake.reset_before_reading, fake.reset_after_reading,
]  # fmt: skip


@pytest.mark.req("M3")
@pytest.mark.parametrize("behaviour", AMBIGUOUS)
async def test_a_push_without_an_answer_is_repeated_with_the_same_token_to_the_same_worker(
    dispatching: Dispatching, behaviour: fake.Behaviour
) -> None:
    """The job may have started: another worker would run it a second time."""
    world = dispatching.world
    odd = await dispatching.worker(behaviour)
    job_id = await world.enqueue()
    await dispatching.start()
    await wait_until(lambda: odd.pushes or odd.connections)
    other = await dispatching.worker()
    await wait_until(lambda: odd.started and not dispatching.member(odd).pushes)
    job = await world.get(job_id)
    assert {token for push in odd.pushes for token in push.tokens} == {job.token}
    assert odd.started == [(job_id, job.token)]
    assert (other.pushes, job.attempt, job.returned_offers) == ([], 1, 0)
    assert dispatching.member(odd).breaker.failures == 0, "an answer closes what the failure opened"


@pytest.mark.req("M3")
async def test_a_push_too_large_for_a_slow_link_is_given_up_and_holds_up_nobody_else(
    dispatching: Dispatching,
) -> None:
    """A mebibyte at 64 kbit/s would take two minutes; the worker gets no complete request, and starts nothing."""

    async def take_slowly(exchange: fake.Exchange) -> None:
        with contextlib.suppress(ConnectionError):
            while await exchange.reader.read(400):
                await asyncio.sleep(0.05)

    world = dispatching.world
    slow = await dispatching.worker(fake.Unread(take_slowly), names=("large",))
    quick = await dispatching.worker(names=("small",))
    large = await world.enqueue("large", "x" * (1 << 20))
    await dispatching.start()
    await wait_until(lambda: slow.connections)
    for _ in range(5):
        await world.enqueue("small")
    await wait_until(lambda: len(quick.started) == 5)
    assert slow.started == []
    # The link is fast again: the offer is the same, for the first push may have arrived.
    await wait_until(lambda: slow.started and not dispatching.member(slow).pushes)
    job = await world.get(large)
    assert slow.started == [(large, job.token)]
    assert (job.attempt, job.returned_offers, slow.connections) == (1, 0, 2)


@pytest.mark.req("M3")
async def test_a_push_is_repeated_only_as_long_as_the_offer_holds(dispatching: Dispatching) -> None:
    """Afterwards the job waits for the end of its lease, and goes to no other worker before."""
    world = dispatching.world
    hole = await dispatching.worker(default=fake.hang, max_jobs=1)
    job_id = await world.enqueue()
    await dispatching.start()
    await wait_until(lambda: hole.pushes)
    token = (await world.get(job_id)).token
    other = await dispatching.worker()
    await wait_until(lambda: not dispatching.member(hole).pushes)
    assert len(hole.pushes) >= 2
    assert hole.pushes[-1].at_s - hole.pushes[0].at_s < OFFER_S
    assert {t for push in hole.pushes for t in push.tokens} == {token}
    await asyncio.sleep(WATCH_S)
    job = await world.get(job_id)
    assert (job.state, job.token, other.pushes) == (JobState.RUNNING, token, [])


async def test_a_job_named_in_no_list_of_the_answer_is_not_given_to_another(dispatching: Dispatching) -> None:
    world = dispatching.world

    async def says_nothing(exchange: fake.Exchange) -> None:
        await exchange.answer([])

    silent = await dispatching.worker(says_nothing, max_jobs=1)
    job_id = await world.enqueue()
    await dispatching.start()
    await wait_until(lambda: silent.pushes)
    other = await dispatching.worker()
    await asyncio.sleep(WATCH_S)
    assert (await world.state(job_id), other.pushes) == (JobState.RUNNING, [])


async def test_two_answers_to_one_push_do_no_harm(dispatching: Dispatching) -> None:
    worker = await dispatching.worker(default=fake.answer_twice)
    worker.works(dispatching.world.settlements)
    await dispatching.start()
    ids = [await dispatching.world.enqueue() for _ in range(5)]
    for job_id in ids:
        await wait_until(lambda job_id=job_id: _is_over(dispatching.world, job_id))
    assert sorted(job_id for job_id, _ in worker.started) == sorted(ids)


async def test_a_worker_that_accepts_and_dies_keeps_the_job_until_its_lease_ends(
    dispatching: Dispatching,
) -> None:
    world = dispatching.world
    mortal = await dispatching.worker(default=fake.accept_and_die, max_jobs=1)
    job_id = await world.enqueue()
    await dispatching.start()
    await wait_until(lambda: mortal.started)
    other = await dispatching.worker()
    await asyncio.sleep(WATCH_S)
    assert (await world.state(job_id), other.pushes) == (JobState.RUNNING, [])


# --- the circuit breaker


async def test_after_five_failures_a_worker_is_left_alone_and_then_probed_with_one_job(
    dispatching: Dispatching,
) -> None:
    refuses = fake.status(500)
    worker = await dispatching.worker(*[refuses] * 5, max_jobs=10)
    dispatching.claims = dispatching.claim_store(offer_ms=100)
    await dispatching.world.enqueue_many(9)
    dispatcher = await dispatching.start()
    # Each push takes all free slots, so work must keep coming until five pushes are seen.
    while len(worker.pushes) < 5:
        await dispatching.world.enqueue()
        await asyncio.sleep(0.01)
        if _free(dispatching, worker) <= 1:
            await _hand_back_all(dispatching, worker)
            dispatcher.wake(WorkersChanged())
    await wait_until(lambda: dispatching.fleet.breaker_states()[worker.id] == "open")
    assert dispatching.fleet.reach()[worker.id].why == "status 500"
    await _hand_back_all(dispatching, worker)
    opened_s = asyncio.get_running_loop().time()
    await wait_until(lambda: len(worker.pushes) > 5)
    assert asyncio.get_running_loop().time() - opened_s > 0.5
    assert len(worker.pushes[5].jobs) == 1, "a probe carries one job"
    await wait_until(lambda: dispatching.fleet.breaker_states()[worker.id] == "closed")
    await wait_until(lambda: len(worker.pushes) > 6)
    assert len(worker.pushes[6].jobs) > 1


async def test_a_probe_that_is_told_to_come_later_does_not_lock_the_worker_out(
    dispatching: Dispatching,
) -> None:
    worker = await dispatching.worker(fake.status(503, Retry_After="0.3"))
    dispatcher = await dispatching.start()
    await wait_until(lambda: dispatching.fleet.get(worker.id))
    breaker = dispatching.member(worker).breaker
    breaker.failures, breaker.open_s = 5, 1.0
    await dispatching.world.enqueue()
    await wait_until(lambda: worker.started)
    assert len(worker.pushes) == 2
    assert dispatcher.last_round_s > 0


async def test_a_probe_that_was_cut_off_does_not_lock_the_worker_out(dispatching: Dispatching) -> None:
    """The fleet outlives a leadership; the state of a probe must not."""
    dispatching.claims = dispatching.claim_store(offer_ms=100)
    worker = await dispatching.worker(fake.hang, max_jobs=2)
    dispatcher = await dispatching.start()
    await wait_until(lambda: dispatching.fleet.get(worker.id))
    breaker = dispatching.member(worker).breaker
    breaker.failures, breaker.open_s = 5, 1.0
    await dispatching.world.enqueue()
    await wait_until(lambda: worker.pushes)
    await dispatcher.stop()
    assert (breaker.is_probing, dispatching.member(worker).pushes) == (False, 0)
    await dispatching.world.enqueue()
    await dispatching.start()
    await wait_until(lambda: worker.started)


@pytest.mark.req("M7")
async def test_bad_workers_do_not_slow_the_good_ones(dispatching: Dispatching) -> None:
    patient = WorkerClient(loopback_guard(), timeout_s=LiveValue(60))
    await patient.start()
    dispatching.client, dispatching.claims = patient, dispatching.claim_store(offer_ms=60_000)
    bad = [
        await dispatching.worker(default=behaviour, max_jobs=4)
        for behaviour in (fake.hang, fake.trickle, fake.reset_after_reading)
    ]
    good = [await dispatching.worker(max_jobs=4) for _ in range(3)]
    for worker in good:
        worker.works(dispatching.world.settlements)
    await dispatching.start()
    await dispatching.world.acceptance.enqueue([dispatching.world.spec(argument=n) for n in range(300)])
    held_at_most = sum(worker.max_jobs for worker in bad)
    await wait_until(lambda: sum(len(w.started) for w in good) >= 300 - held_at_most, timeout_s=40)
    # The fast workers are done while the first push to the slow ones is still under way.
    assert [len(worker.pushes) for worker in bad[:2]] == [1, 1]
    assert [dispatching.member(worker).pushes for worker in bad[:2]] == [1, 1]
    for worker in bad:
        worker.die()
    await dispatching.stop()
    await patient.stop()


# --- waking and stopping


async def test_a_job_enqueued_by_another_process_wakes_the_leader(
    dispatching: Dispatching, store_server: StoreServer
) -> None:
    worker = await dispatching.worker()
    dispatcher = await dispatching.start()
    world = dispatching.world
    listens = asyncio.Event()
    listener = OwnListener(
        world.shard, on_wake=waking(dispatcher), on_finished=lambda job_id: None, on_gap=listens.set
    )
    await listener.start()
    await asyncio.wait_for(listens.wait(), 10)
    client = StoreClient(store_server.url, connections=2)
    elsewhere = StoreWorld(Shard.bound(client, world.shard.keys))
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    try:
        for n in range(10):
            await elsewhere.enqueue()
            await wait_until(lambda n=n: len(worker.started) == n + 1)
            await elsewhere.settlements.settle_success(worker.id, [(*worker.started[-1], b"\xc0")])
    finally:
        await listener.stop()
        await client.close()
    assert loop.time() - began_s < 5, "ten polls would take ten seconds"


@pytest.mark.req("D24")
async def test_the_first_job_with_new_labels_that_another_process_enqueues_starts_at_once(
    dispatching: Dispatching, store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The leader finds nothing by polling: it needs a message.
    monkeypatch.setattr(dispatcher_module, "POLL_S", 3600.0)
    worker = await dispatching.worker(labels={"gpu": "1", "at": "a:b"})
    dispatcher = await dispatching.start()
    world = dispatching.world
    listens = asyncio.Event()
    listener = OwnListener(
        world.shard, on_wake=waking(dispatcher), on_finished=lambda job_id: None, on_gap=listens.set
    )
    await listener.start()
    await asyncio.wait_for(listens.wait(), 10)
    client = StoreClient(store_server.url, connections=2)
    elsewhere = StoreWorld(Shard.bound(client, world.shard.keys))
    try:
        for n, requires in enumerate(({"gpu": "1"}, {"at": "a:b"}, {"gpu": "1", "at": "a:b"}, {"gpu": "1"})):
            job_id = await elsewhere.enqueue(requires=requires)
            await wait_until(lambda n=n: len(worker.started) == n + 1, timeout_s=30)
            assert worker.started[-1][0] == job_id
            await elsewhere.settlements.settle_success(worker.id, [(*worker.started[-1], b"\xc0")])
    finally:
        await listener.stop()
        await client.close()


async def test_a_freed_slot_wakes_the_leader(dispatching: Dispatching) -> None:
    worker = await dispatching.worker(max_jobs=1)
    await dispatching.start()
    await dispatching.world.enqueue_many(10)
    began_s = asyncio.get_running_loop().time()
    for n in range(10):
        await wait_until(lambda n=n: len(worker.started) == n + 1)
        await worker.succeed(dispatching.world.settlements, worker.started[-1])
    assert asyncio.get_running_loop().time() - began_s < 5


@pytest.mark.req("D2", "D4")
async def test_under_a_stale_epoch_nothing_is_claimed_and_the_leader_is_told(
    dispatching: Dispatching,
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    await dispatching.start()
    await wait_until(lambda: dispatching.fleet.get(worker.id))
    await world.reelect()
    job_id = await world.enqueue()
    await wait_until(lambda: dispatching.stale)
    assert (await world.state(job_id), worker.pushes) == (JobState.READY, [])


@pytest.mark.req("D2")
async def test_an_offer_refused_after_another_took_over_changes_nothing(dispatching: Dispatching) -> None:
    world = dispatching.world
    answer = asyncio.Event()

    async def refuses_late(exchange: fake.Exchange) -> None:
        await asyncio.wait_for(answer.wait(), 10)
        await fake.reject("stale_epoch")(exchange)

    worker = await dispatching.worker(refuses_late)
    job_id = await world.enqueue()
    await dispatching.start()
    await wait_until(lambda: worker.pushes)
    await world.reelect()
    before = await world.get(job_id)
    answer.set()
    await wait_until(lambda: dispatching.stale)
    assert await world.get(job_id) == before


@pytest.mark.req("D4")
async def test_a_leader_that_cannot_trust_its_lock_pushes_nothing_and_gives_the_claims_back(
    dispatching: Dispatching,
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    dispatching.is_trusted = False
    job_id = await world.enqueue()
    await dispatching.start()
    await wait_until(lambda: dispatching.fleet.get(worker.id))

    async def returned() -> bool:
        return (await world.get(job_id)).returned_offers > 0

    await wait_until(returned)
    assert worker.pushes == []
    assert dispatching.member(worker).breaker.state(0.0) == "closed", "it is not the worker's fault"
    dispatching.is_trusted = True
    await wait_until(lambda: worker.started)


@pytest.mark.req("D2", "D4")
async def test_a_leader_that_lost_its_lock_between_claim_and_push_pushes_nothing(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is stopped at this point finds this when it wakes."""
    world = dispatching.world
    worker = await dispatching.worker()
    claim = dispatching.claims.claim_each

    async def then_stands_still(*args: Any, **options: Any) -> object:
        answer = await claim(*args, **options)
        dispatching.is_trusted = False
        await world.reelect()
        return answer

    monkeypatch.setattr(dispatching.claims, "claim_each", then_stands_still)
    job_id = await world.enqueue()
    await dispatching.start()
    await wait_until(lambda: dispatching.stale)
    assert worker.pushes == []
    job = await world.get(job_id)
    assert (job.state, job.worker_id) == (JobState.RUNNING, worker.id), "its lease tells, and counts nothing"


@pytest.mark.req("D4")
async def test_a_push_without_an_answer_is_not_repeated_by_who_lost_the_lead(
    dispatching: Dispatching,
) -> None:
    async def loses_the_lead(exchange: fake.Exchange) -> None:
        dispatching.is_trusted = False
        await fake.reset_after_reading(exchange)

    worker = await dispatching.worker(loses_the_lead)
    dispatching.claims = dispatching.claim_store(offer_ms=60_000)
    job_id = await dispatching.world.enqueue()
    await dispatching.start()
    await wait_until(lambda: worker.pushes and not dispatching.member(worker).pushes)
    assert len(worker.pushes) == 1
    assert await dispatching.world.state(job_id) == JobState.RUNNING, "it may run there: nobody else gets it"


@pytest.mark.req("D1")
async def test_a_worker_that_does_not_answer_keeps_the_next_leader_waiting_for_a_moment_only(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed = asyncio.Event()

    async def silence(*args: object) -> None:
        pushed.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(dispatching.client, "push", silence)
    await dispatching.worker()
    dispatching.claims = dispatching.claim_store(offer_ms=60_000)
    await dispatching.world.enqueue()
    dispatcher = await dispatching.start()
    await asyncio.wait_for(pushed.wait(), 15)
    await asyncio.wait_for(dispatcher.stop(), FINISH_WITHIN_S + 5)


async def test_stop_finishes_the_pushes_under_way(dispatching: Dispatching) -> None:
    world = dispatching.world
    answer = asyncio.Event()

    async def refuses_late(exchange: fake.Exchange) -> None:
        await answer.wait()
        await fake.reject("draining", 30)(exchange)

    worker = await dispatching.worker(refuses_late)
    job_id = await world.enqueue()
    dispatcher = await dispatching.start()
    await wait_until(lambda: worker.pushes)
    stopping = asyncio.create_task(dispatcher.stop())
    await asyncio.sleep(0)
    await world.enqueue()
    answer.set()
    await stopping
    assert await world.state(job_id) == JobState.READY, "what the worker said was heard"
    assert len(worker.pushes) == 1


@pytest.mark.req("D1")
async def test_a_claim_under_way_when_the_lead_ends_is_given_back_and_not_left_to_its_lease(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    claimed, goes_on, claim = asyncio.Event(), asyncio.Event(), dispatching.claims.claim_each

    async def slow(*args: Any, **options: Any) -> object:
        answer = await claim(*args, **options)
        claimed.set()
        await goes_on.wait()
        return answer

    monkeypatch.setattr(dispatching.claims, "claim_each", slow)
    job_id = await world.enqueue()
    dispatcher = await dispatching.start()
    await asyncio.wait_for(claimed.wait(), 15)
    # The leader does the same: its trust ends before its duties stop, and it gives the lock back afterwards.
    dispatching.is_trusted = False
    stopping = asyncio.create_task(dispatcher.stop())
    await asyncio.sleep(0)
    goes_on.set()
    await stopping
    assert (await world.state(job_id), worker.pushes) == (JobState.READY, [])


async def test_stop_begins_no_push_again(dispatching: Dispatching) -> None:
    """A dispatcher that stops may have lost the lead: it only finishes what is under way."""
    worker = await dispatching.worker(default=fake.reset_after_reading)
    dispatching.claims = dispatching.claim_store(offer_ms=60_000)
    await dispatching.world.enqueue()
    dispatcher = await dispatching.start()
    await wait_until(lambda: len(worker.pushes) >= 2)
    stopping = asyncio.create_task(dispatcher.stop())
    await asyncio.sleep(0)
    pushes = len(worker.pushes)
    await asyncio.wait_for(stopping, 10)
    assert len(worker.pushes) <= pushes + 1


async def test_rounds_go_on_after_an_outage_of_the_store(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = dispatching.world
    worker = await dispatching.worker()
    await dispatching.start()
    await wait_until(lambda: dispatching.fleet.get(worker.id))
    job_id = await world.enqueue()
    await wait_until(lambda: worker.started)
    await worker.succeed(dispatching.world.settlements)
    for _ in range(3):
        await world.shard.client.reset()
        with contextlib.suppress(Exception):
            await world.enqueue()
    await world.enqueue()
    await wait_until(lambda: len(worker.started) >= 2)
    assert await world.state(job_id) == JobState.SUCCEEDED


def _member_failures(dispatching: Dispatching, worker: fake.FakeWorker) -> int:
    member = dispatching.fleet.get(worker.id)
    return member.breaker.failures if member else 0


def _free(dispatching: Dispatching, worker: fake.FakeWorker) -> int:
    member = dispatching.fleet.get(worker.id)
    return member.worker.spec.max_jobs - member.busy if member else 1


async def _hand_back_all(dispatching: Dispatching, worker: fake.FakeWorker) -> None:
    world = dispatching.world
    claimed = await world.redis.smembers(world.shard.keys.claims(worker.id))
    jobs = [await world.get(raw.decode()) for raw in claimed]
    decision = Decision(JobState.READY, "handed_back")
    await dispatching.world.settlements.settle(
        worker.id, [world.settlement(job, job.token, decision) for job in jobs]
    )


async def _is_ready(world: StoreWorld, job_id: str) -> bool:
    return await world.state(job_id) == JobState.READY


async def _is_over(world: StoreWorld, job_id: str) -> bool:
    return await world.state(job_id) == JobState.SUCCEEDED


# --- many workers


@pytest.mark.req("D11")
async def test_a_backlog_is_claimed_for_many_workers_at_once_and_one_job_for_one(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds: list[list[str]] = []
    prepare, read, has_more = dispatching.claims.prepare_claims, dispatching.claims.read_claims, True

    def counted(epoch: str, orders: Sequence[WantedClaim], edition: int) -> PreparedClaims:
        rounds.append([order.worker_id for order in orders])
        return prepare(epoch, orders, edition)

    def noted(*args: Any) -> list[Claim | NotClaimed | Exception]:
        nonlocal has_more
        claims = read(*args)
        has_more = not (isinstance(claims[-1], Claim) and claims[-1].is_exhausted)
        return claims

    monkeypatch.setattr(dispatching.claims, "prepare_claims", counted)
    monkeypatch.setattr(dispatching.claims, "read_claims", noted)
    workers = [await dispatching.worker(max_jobs=8) for _ in range(10)]
    await dispatching.world.enqueue_many(400)
    for worker in workers:
        worker.works(dispatching.world.settlements)
    await dispatching.start()
    await wait_until(lambda: sum(len(worker.started) for worker in workers) == 400)
    assert all(worker.started for worker in workers)
    assert max(map(len, rounds)) > 2
    assert all(len(set(asked)) == len(asked) for asked in rounds)
    await wait_until(lambda: not has_more)
    rounds.clear()
    await dispatching.world.enqueue()
    await wait_until(lambda: sum(len(worker.started) for worker in workers) == 401)
    assert max(map(len, rounds)) == 1


# --- callbacks


@pytest.mark.req("P6", "J8")
async def test_a_job_that_is_canceled_between_the_claim_of_its_callback_and_the_offer_is_not_pushed(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker would take the job for a new one, and open its challenge again."""
    world = dispatching.world
    gone, job, request = await world.awaiting()
    await world.workers.forget(gone)
    worker = await dispatching.worker()
    give = world.progress.give_checkpoints

    async def cancels_first(jobs: Sequence[ClaimedJob]) -> None:
        if any(one.job_id == job.job_id for one in jobs):
            await world.operator_actions.cancel(job.job_id)
        await give(jobs)

    monkeypatch.setattr(world.progress, "give_checkpoints", cancels_first)
    await dispatching.start()
    await world.call_back(request)

    async def is_canceled() -> bool:
        return await world.state(job.job_id) is JobState.CANCELED

    await wait_until(is_canceled, timeout_s=30)
    other = await world.enqueue()
    await wait_until(lambda: worker.started, timeout_s=30)
    assert {job_id for job_id, _ in worker.started} == {other}
    assert len(worker.pushes) == 1
    await world.assert_sound()


@pytest.mark.req("P6")
async def test_a_callback_is_pushed_with_its_job_beside_one_that_was_canceled(
    dispatching: Dispatching, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = dispatching.world
    _, canceled, _ = first = await world.awaiting()
    _, goes_on, _ = second = await world.awaiting()
    for gone, one, request in (first, second):
        await world.workers.forget(gone)
        await world.call_back(request, one.job_id.encode())
    worker = await dispatching.worker()
    give = world.progress.give_checkpoints

    async def cancels_first(jobs: Sequence[ClaimedJob]) -> None:
        if any(one.job_id == canceled.job_id for one in jobs):
            await world.operator_actions.cancel(canceled.job_id)
        await give(jobs)

    monkeypatch.setattr(world.progress, "give_checkpoints", cancels_first)
    await dispatching.start()
    await wait_until(lambda: worker.started, timeout_s=30)
    (push,) = worker.pushes
    ((job_id, phase, body),) = [(one["job_id"], one["phase"], one["callback"]["body"]) for one in push.jobs]
    assert (job_id, phase, body) == (goes_on.job_id, "callback", goes_on.job_id.encode())
