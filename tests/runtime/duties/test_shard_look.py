"""A look at the shard begins the duties that have something to do, and looks seldom where nothing happens."""

import asyncio
import contextlib
import contextvars
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.workers.silence import CrowdRules
from jqmaster.errors import DamagedError, StaleEpochError, StoreRefusedError, StoreUnavailableError
from jqmaster.lifecycle import LoopFailures, running
from jqmaster.live_value import LiveValue
from jqmaster.runtime.duties import shard_look
from jqmaster.runtime.duties.grace import Grace, GracePolicy
from jqmaster.runtime.duties.shard_look import BUSY_S, QUIET_S, SPREAD_S, USUAL_S, FollowedDuty, ShardLook
from jqmaster.runtime.periodic_loop import WokenLoop
from jqmaster.store.leadership.leadership import Leadership
from jqmaster.store.operations.looks import Look, LookStore
from tests.support import real_time
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("S6"), real_time.LOOPS]

NOTHING = Look(
    0, jobs=-1, leases=-1, callbacks=-1, definitions=-1, event_groups=-1, batches=-1, gates=-1, results=-1,
    has_follow_ups=False, has_suspects=False, has_changed_gates=False, has_counted_gates=False, has_actions=False,
    has_notices=False, has_logs=False, is_ready=False, workers=0, silent_ms=-1, edition=(0, 0, 0), finished={},
)  # fmt: skip
LONG_S = 3600.0


class Counting(WokenLoop):
    """A duty that counts its rounds. `pause_s`: what each of them returns."""

    is_vital = False
    poll_s = 0.05
    rest_s = LONG_S

    def __init__(self) -> None:
        super().__init__(
            "counting", SystemClock(), complaint="cannot count", on_stale=lambda: None, retry_s=0.01
        )
        self.rounds = 0
        self.pause_s = self.poll_s
        self.failure: Exception | None = None

    async def _round(self) -> float:
        self.rounds += 1
        if self.failure:
            raise self.failure
        return self.pause_s

    async def resting(self, rounds: int) -> float:
        """Return for how long it rests after this many rounds."""

        def rest_s() -> float | None:
            until_s = self.next_round_s
            if self.rounds != rounds or until_s is None:
                return None
            return round(until_s - self._began_pause_s, 3)

        return await wait_until(rest_s, what=f"a rest after {rounds} rounds")


class ScriptedStore:
    """Answers looks, or hangs while `answers` is not set."""

    def __init__(self) -> None:
        self.now = NOTHING
        self.failure: Exception | None = None
        self.is_shared = False
        self.facts_without_entries = b""
        self.answers = asyncio.Event()
        self.answers.set()

    def call_for_entries(self) -> None: ...

    async def look(self, epoch: str) -> Look:
        await self.answers.wait()
        if self.failure:
            raise self.failure
        return self.now


class Looking:
    def __init__(self) -> None:
        self.store = ScriptedStore()
        self.taken: list[Look] = []
        self.blind = 0
        self.stale = 0
        self.duty = Counting()
        self.lease_s = LiveValue(60.0)
        clock = SystemClock()
        self.grace = Grace(clock, LiveValue(GracePolicy(17, 5, CrowdRules(5000, 0.3, 3))))
        self.look = ShardLook(
            Leadership("1:n", "m"),
            cast(LookStore, self.store),
            self.grace,
            clock,
            duties=[FollowedDuty(self.duty, lambda look: look.jobs, lambda look: look.has_logs)],
            on_look=self.taken.append,
            on_blind=self._on_blind,
            lease_s=self.lease_s,
            on_stale=self._on_stale,
            rng=random.Random(1),
        )

    def _on_stale(self) -> None:
        self.stale += 1

    def _on_blind(self) -> None:
        self.blind += 1

    async def begin(self) -> Counting:
        """Start the duty, with a first round."""
        await self.duty.start()
        self.duty.wake()
        return self.duty

    async def sees(self, **fields: Any) -> float:
        """Make one look at a shard with these fields; return the pause after it."""
        self.store.now = replace(NOTHING, **fields)
        return await self.look._round()


@pytest.fixture
async def looking() -> AsyncIterator[Looking]:
    one = Looking()
    yield one
    await one.look.stop()
    await one.duty.stop()


async def test_pauses_double_on_a_quiet_shard_and_differ_from_shard_to_shard(looking: Looking) -> None:
    pauses_s = [await looking.sees() for _ in range(5)]
    # The first one is random, so that shards that were opened together do not look together.
    for found_s, most_s in zip(pauses_s, (USUAL_S, 2.0, 4.0, QUIET_S, QUIET_S), strict=True):
        assert found_s <= most_s
    assert all(found_s >= 0.9 * most_s for found_s, most_s in zip(pauses_s[1:], (2, 4, 5, 5), strict=True))
    assert len(set(pauses_s)) == 5
    assert looking.look.is_quiet


@pytest.mark.parametrize(
    ("fields", "most_s"),
    [
        ({"workers": 1, "silent_ms": 10}, USUAL_S),
        ({"is_ready": True}, USUAL_S),
        ({"leases": 900}, BUSY_S),
        ({"leases": 0}, BUSY_S),
        # A damaged entry may stay due, and hide the next one.
        ({"jobs": 0}, Counting.poll_s),
        ({"has_logs": True}, Counting.poll_s),
        ({"has_logs": True, "leases": 900}, Counting.poll_s),
    ],
)
async def test_a_shard_with_workers_or_work_is_looked_at_often(
    looking: Looking, fields: dict[str, Any], most_s: float
) -> None:
    for _ in range(4):
        await looking.sees()
    for _ in range(2):
        assert 0.9 * most_s <= await looking.sees(**fields) <= most_s
        assert not looking.look.is_quiet
    # Quiet begins anew.
    assert await looking.sees() <= USUAL_S


async def test_a_new_lease_is_seen_before_it_could_end(looking: Looking) -> None:
    looking.lease_s.current = 1.5
    assert max([await looking.sees() for _ in range(6)]) <= 0.5


async def test_a_message_ends_the_quiet(looking: Looking) -> None:
    for _ in range(4):
        await looking.sees()
    await looking.look.start()
    await wait_until(lambda: len(looking.taken) == 5 and looking.look._pausing, what="a quiet pause")
    looking.look.stir()
    assert not looking.look.is_quiet
    await wait_until(lambda: len(looking.taken) == 6, timeout_s=QUIET_S - 1, what="a look after the message")


async def test_the_first_look_begins_only_first_rounds_that_have_something_to_do(looking: Looking) -> None:
    duty = looking.duty
    await duty.start()
    assert await duty.resting(0) == LONG_S
    await looking.sees()
    assert await duty.resting(0) == LONG_S
    await looking.sees(jobs=0)
    assert await duty.resting(1) == LONG_S


async def test_a_duty_that_polls_begins_at_once_with_the_first_look(looking: Looking) -> None:
    looking.duty.poll_s = LONG_S / 2  # no poll of its own
    await looking.duty.start()
    await looking.duty.resting(0)
    await looking.sees(has_logs=True)
    await looking.duty.resting(1)


async def test_a_duty_rests_until_a_look_finds_it_due(looking: Looking) -> None:
    duty = await looking.begin()
    assert await duty.resting(1) == LONG_S
    await looking.sees(jobs=-1)
    assert await duty.resting(1) == LONG_S
    await looking.sees(jobs=60_000)
    assert await duty.resting(1) < 61
    # A nearer instant counts, a later one does not.
    await looking.sees(jobs=30_000)
    await looking.sees(jobs=50_000)
    assert await duty.resting(1) < 31
    await looking.sees(jobs=0)
    assert await duty.resting(2) == LONG_S


async def test_a_duty_that_rests_has_no_task_and_its_faults_stay_those_of_its_shard(looking: Looking) -> None:
    """A process that leads a thousand quiet shards would have fifteen thousand tasks. Messages come from tasks of
    others."""

    def tasks() -> list[str]:
        return [name for task in asyncio.all_tasks() if (name := task.get_name()) == "counting.rounds"]

    clock, duty = SystemClock(), looking.duty
    own, others = LoopFailures(clock), LoopFailures(clock)
    async with running([duty], failures=own):
        assert tasks() == []
        duty.wake()
        assert tasks() == ["counting.rounds"]
        await duty.resting(1)
        await wait_until(lambda: tasks() == [], what="the task ends")
        duty.failure = ValueError("faulty")

        class Messenger:
            async def start(self) -> None:
                duty.wake()

            async def stop(self) -> None:
                pass

        async with running([Messenger()], failures=others):
            await wait_until(lambda: not own.is_empty, what="the fault is noted")
            assert others.is_empty
    rounds = duty.rounds
    duty.wake()
    duty.begin_within(0.0)
    assert tasks() == []
    assert duty.rounds == rounds


async def test_a_duty_that_knows_what_is_due_needs_no_look(looking: Looking) -> None:
    looking.duty.pause_s = 0.0
    duty = await looking.begin()
    await wait_until(lambda: duty.rounds > 2)


async def test_a_message_begins_a_round_at_once(looking: Looking) -> None:
    duty = await looking.begin()
    await duty.resting(1)
    duty.wake()
    assert await duty.resting(2) == LONG_S


async def test_a_duty_with_work_that_has_no_instant_polls_at_its_own_pace(looking: Looking) -> None:
    duty = await looking.begin()
    await duty.resting(1)
    await looking.sees(has_logs=True)
    assert await duty.resting(2) == LONG_S
    assert duty.poll_s < USUAL_S


async def test_a_round_that_failed_is_repeated_without_a_look(looking: Looking) -> None:
    looking.duty.failure = StoreUnavailableError("away")
    duty = await looking.begin()
    await wait_until(lambda: duty.rounds > 2)
    duty.failure = None
    await wait_until(lambda: duty.next_round_s, what="it rests")


async def test_while_looks_fail_the_duties_look_for_themselves_and_all_of_them_after_it(
    looking: Looking,
) -> None:
    duty, away = await looking.begin(), StoreUnavailableError("away")
    await duty.resting(1)
    looking.look._failed(away, "cannot look")
    assert await duty.resting(2) == LONG_S
    looking.look._failed(away, "cannot look")
    assert await duty.resting(3) == LONG_S
    # The data may be older than what the duty knew.
    await looking.sees()
    assert await duty.resting(4) == LONG_S
    await looking.sees()
    assert await duty.resting(4) == LONG_S


async def test_duties_look_for_themselves_where_only_the_look_is_refused(looking: Looking) -> None:
    looking.store.is_shared = True
    duty = await looking.begin()
    await duty.resting(1)
    await looking.sees()
    refused = StoreRefusedError("the store refuses: NOPERM")
    looking.store.failure = refused
    looking.grace._until_s = 0.0
    with pytest.raises(StoreRefusedError):
        await looking.look._round()
    looking.look._failed(refused, "cannot look")
    assert looking.blind == 0
    assert looking.look._failing_since_s
    looking.look._failing_since_s -= QUIET_S
    looking.look._failed(refused, "cannot look")
    assert looking.blind == 1
    await duty.resting(2)


async def test_a_store_that_refused_looks_is_not_told_to_have_been_away(
    looking: Looking, caplog: pytest.LogCaptureFixture
) -> None:
    looking.store.failure = StoreRefusedError("the store refuses: NOPERM")
    with pytest.raises(StoreRefusedError):
        await looking.look._round()
    looking.store.failure, looking.grace._away_s = None, 2.0
    await looking.sees()
    assert "the store refused this master's looks for 2.0 s" in caplog.text
    looking.grace._away_s = 2.0
    await looking.sees()
    assert "the store was away for 2.0 s" in caplog.text


async def test_a_round_that_ends_while_the_duty_is_stopped_begins_no_pause(looking: Looking) -> None:
    duty, is_under_way, goes_on = looking.duty, asyncio.Event(), asyncio.Event()

    async def swallows() -> float:
        """As libraries do before Python 3.12, end well although the task was canceled."""
        is_under_way.set()
        with contextlib.suppress(asyncio.CancelledError):
            await goes_on.wait()
        duty.rounds += 1
        return LONG_S

    duty._round = swallows  # type: ignore[method-assign]
    await duty.start()
    duty.wake()
    await is_under_way.wait()
    await duty.stop()
    assert duty.rounds == 1
    assert duty._resting is None
    duty.wake()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "counting.rounds"] == []
    # It can be started again.
    await duty.start()
    assert duty._resting is not None
    await duty.stop()


async def test_a_duty_that_was_started_without_a_context_begins_its_rounds(looking: Looking) -> None:
    duty = looking.duty
    empty = contextvars.Context()
    await asyncio.create_task(duty.start(), context=empty)
    assert duty._context is not None
    assert not duty._context
    duty.wake()
    await duty.resting(1)
    await duty.stop()


@pytest.mark.parametrize("looks", [1, 4])
async def test_one_late_look_at_a_quiet_shard_among_many_begins_no_polls(
    looking: Looking, looks: int
) -> None:
    """A store that many shards use would otherwise get fifteen calls of each shard whenever it is late."""
    looking.store.is_shared = True
    duty, away = await looking.begin(), StoreUnavailableError("away")
    await duty.resting(1)
    for _ in range(looks):
        await looking.sees()
    looking.store.failure = away
    with pytest.raises(StoreUnavailableError):
        await looking.look._round()
    looking.look._failed(away, "cannot look")
    assert looking.blind == 0
    assert await duty.resting(1) == LONG_S
    assert looking.look._failing_since_s
    looking.look._failing_since_s -= QUIET_S
    # Polls would not reach the store either.
    looking.look._failed(away, "cannot look")
    looking.look._be_blind_until_answered()
    assert looking.look._still_blind
    looking.look._still_blind.cancel()
    assert looking.blind == 0
    # They poll if the store answers, and only the look fails.
    looking.look._failed(DamagedError("damaged"), "cannot look")
    assert looking.blind == 1
    await duty.resting(2)
    looking.store.failure = None
    await looking.sees()
    assert looking.look._failing_since_s is None
    # The outage may have cost data, so each duty makes a round, and not all at the same moment.
    assert await duty.resting(2) < SPREAD_S


async def test_while_a_look_hangs_the_duties_look_for_themselves_at_their_own_pace(
    looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_look, "BLIND_AFTER_S", 0.05)
    monkeypatch.setattr(shard_look, "BUSY_S", 0.05)
    duty = await looking.begin()
    await duty.resting(1)
    looking.store.answers.clear()
    await looking.look.start()
    await wait_until(lambda: duty.rounds > 3, what="the duty polls")
    assert looking.blind > 1
    assert looking.taken == []
    looking.store.answers.set()
    await wait_until(lambda: looking.taken and looking.look._pausing, what="a look")
    blind = looking.blind
    await looking.sees()
    assert looking.blind == blind


async def test_a_duty_that_cannot_read_a_look_fails_alone_and_polls(looking: Looking) -> None:
    """One fault in one duty must not end the looks of all others."""
    looking.duty.name, others = "faulty", Counting()
    others.follow_looks()

    def bad(look: Look) -> int:
        if look.workers:
            raise KeyError("an unlisted state")
        return -1

    looking.look._duties = [FollowedDuty(looking.duty, bad), FollowedDuty(others, lambda look: look.jobs)]
    failures = LoopFailures(SystemClock())
    looking.store.now = replace(NOTHING, workers=1, jobs=0)
    async with running([looking.duty, others], failures=failures):
        looking.duty.wake()
        others.wake()
        await looking.duty.resting(1)
        await others.resting(1)
        async with running([looking.look], failures=failures):
            for duty in (looking.duty, others):
                await wait_until(lambda duty=duty: duty.rounds > 2, what="rounds of both duties")
            assert list(failures.side_faults()) == ["shard_look faulty"]
            assert failures.longest() is None
            looking.store.now = NOTHING
            await wait_until(lambda: not failures.side_faults(), what="the duty reads looks again")


async def test_a_look_under_a_newer_epoch_ends_the_leadership(looking: Looking) -> None:
    looking.store.failure = StaleEpochError()
    await looking.look.start()
    await wait_until(lambda: looking.stale == 1)


async def test_looks_tell_of_an_outage(looking: Looking) -> None:
    """The reaper does not ask the store while nothing is due."""
    looking.grace._until_s = 0.0
    assert looking.grace.is_over
    looking.store.failure = StoreUnavailableError("away")
    await looking.look.start()
    await wait_until(lambda: looking.grace._away_s > 1.0, what="an outage")
    looking.store.failure = None
    await wait_until(lambda: looking.taken, what="a look")
    assert not looking.grace.is_over


async def test_a_step_of_the_clock_is_noticed_with_the_next_look(looking: Looking) -> None:
    looking.grace._until_s = 0.0
    await looking.sees(now_ms=1_000_000)
    await looking.sees(now_ms=1_000_010)
    assert looking.grace.is_over
    await looking.sees(now_ms=1_000_010 - 60_000)
    assert not looking.grace.is_over
    assert looking.grace.was_set_back
