"""Verdicts from a look at the store and the workers: order, numbers and sentences."""

from dataclasses import replace
from typing import Any

import pytest

from jqmaster.domain.constraints.constraint import Constraint
from jqmaster.domain.constraints.gate_check import GateCheck, Holder
from jqmaster.domain.constraints.limit_kinds import CLOSERS, CONCURRENCY, PAUSE, RATE, closing
from jqmaster.domain.instant import iso_ms, span
from jqmaster.domain.jobs.job import DEFAULT_RETRY, Cause, Job, JobState
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.domain.why.facts import Accuracy, FleetFacts, JobsAhead, Reachability, Snapshot
from jqmaster.domain.why.judgement import rival_names, verdicts
from jqmaster.domain.why.verdict import Ahead, ByConstraint
from jqmaster.domain.why.worker_verdicts import NoWorker, WorkersUnavailable
from jqmaster.domain.workers.worker import Worker, WorkerSpec

pytestmark = pytest.mark.req("J13")

NOW_MS = 1_800_000_000_000
AT = "2027-01-15T08:00:00.000Z"
CID, OTHER_CID = "0000aaaa", "0000bbbb"

JOB = Job(
    id="0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e", name="mail", state=JobState.READY, cause=Cause.NONE, priority=0,
    max_retry=5, timeout_ms=30_000, keep_result=False, rerun_lost=False, is_confirmed=False, attempt=0, failures=0,
    losses=0, returned_offers=0, created_at_ms=NOW_MS, due_at_ms=0, expires_at_ms=0, started_at_ms=0,
    finished_at_ms=0, not_after_ms=0, fence=0, token="", worker_id="", retry=DEFAULT_RETRY, tags=(), headers={},
    argument=b"\xc0", lane_id=bytes(8),
)  # fmt: skip
NONE_AHEAD = JobsAhead({}, Accuracy.EXACT)
GATE = GateCheck(
    gate_id=CID + "1" * 16, value="example.org", waiting=1, is_closed=False, is_override=False, figures={}, holders=(),
)  # fmt: skip
HOLDERS = tuple(Holder(f"job-{n}", f"worker-{n}", NOW_MS - 12_000 * (5 - n)) for n in range(5))


def limit(name: str = "per-host", cid: str = CID, key: str | None = "argument.host") -> Constraint:
    matcher = parse_matcher({"field": "name", "op": "eq", "value": "mail"})
    return Constraint(name, cid, matcher, key=parse_path(key) if key else None, concurrency=2)


CONSTRAINTS = {CID: limit(), OTHER_CID: limit("all-mail", OTHER_CID, None)}


def worker(number: int = 1, *names: str, age_ms: int = 0, **fields: Any) -> Worker:
    spec = WorkerSpec("http://w", names or ("mail",), 4, "node", 1, {}, "1", "s" * 32)
    if "url" in fields:
        spec = replace(spec, url=fields.pop("url"))
    flags: dict[str, Any] = {"is_draining": False, "is_detached": False, "busy": 0, **fields}
    return Worker(f"worker-{number}", spec, NOW_MS - 60_000, NOW_MS - age_ms, **flags)


def fleet(
    *workers: Worker, reach: dict[str, Reachability] | None = None, is_leader: bool = True
) -> FleetFacts:
    return FleetFacts(workers, 5_000, 10_000, (reach or {}) if is_leader else None)


def snapshot(job: Job = JOB, **fields: Any) -> Snapshot:
    known: dict[str, Any] = {
        "now_ms": NOW_MS, "job": job, "has_leader": True, "edition": 3, "settled_edition": 3, "lane_edition": 3,
        "lease_until_ms": None, "gates": (), "jobs_ahead": NONE_AHEAD if job.state is JobState.READY else None,
    }  # fmt: skip
    return Snapshot(**(known | fields))


def told(one: Snapshot, facts: FleetFacts | None = None) -> list[tuple[str, str]]:
    return [(v.code, v.text) for v in verdicts(one, CONSTRAINTS, facts or fleet(worker()))]


def only(one: Snapshot, facts: FleetFacts | None = None) -> str:
    ((_, text),) = told(one, facts)
    return text


def codes(one: Snapshot, facts: FleetFacts | None = None) -> list[str]:
    return [code for code, _ in told(one, facts)]


def closed(
    *,
    waiting: int = 1,
    value: str = GATE.value,
    holders: tuple[Holder, ...] = (),
    gate_id: str = GATE.gate_id,
    **figures: int,
) -> GateCheck:
    return replace(
        GATE, is_closed=True, waiting=waiting, value=value, holders=holders, gate_id=gate_id, figures=figures
    )


# --- whose turn it is


def test_nothing_in_the_way_means_next() -> None:
    assert told(snapshot()) == [("next", "It is next: the first free slot of its workers takes it.")]


def test_next_also_while_all_workers_are_full() -> None:
    assert codes(snapshot(), fleet(worker(busy=4))) == ["workers_unavailable", "next"]


def test_not_next_without_a_worker_or_a_leader_or_behind_a_gate_or_between_rules() -> None:
    assert codes(snapshot(), fleet()) == ["no_worker"]
    assert codes(snapshot(has_leader=False)) == ["no_leader"]
    assert codes(snapshot(gates=(closed(is_paused=True),))) == ["constraint"]
    assert codes(snapshot(settled_edition=2)) == ["rules_changing"]
    assert codes(snapshot(lane_edition=2, jobs_ahead=None)) == ["rules_changing"]


@pytest.mark.parametrize(
    ("jobs_ahead", "text"),
    [
        (JobsAhead({"mail": 1}, Accuracy.EXACT), "1 job that may start comes before it."),
        (JobsAhead({"mail": 2, "feed": 3}, Accuracy.EXACT),
         "5 jobs that may start come before it, including 3 named feed."),
        (JobsAhead({"mail": 500}, Accuracy.AT_LEAST), "At least 500 jobs that may start come before it."),
        (JobsAhead({"mail": 7}, Accuracy.ABOUT), "About 7 jobs that may start come before it."),
        (JobsAhead({}, Accuracy.AT_LEAST), "Other jobs may come before it, but there are too many lanes to count."),
        (JobsAhead({f"n{n}": 1 for n in range(7)}, Accuracy.EXACT),
         "7 jobs that may start come before it, including 1 named n0, 1 named n1, 1 named n2, 1 named n3, 1 "
         "named n4 and "
         "those of 2 more names."),
    ],
)  # fmt: skip
def test_jobs_ahead_are_counted(jobs_ahead: JobsAhead, text: str) -> None:
    ((code, said),) = told(snapshot(jobs_ahead=jobs_ahead))
    assert (code, said) == ("ahead", text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 job that may start or waits for the same constraint comes before it."),
        (3, "3 jobs that may start or wait for the same constraint come before it."),
    ],
)
def test_behind_a_closed_gate_those_are_ahead_that_wait_for_it_too(count: int, text: str) -> None:
    one = snapshot(gates=(closed(is_paused=True),), jobs_ahead=JobsAhead({"mail": count}, Accuracy.EXACT))
    assert told(one)[1] == ("ahead", text)


def test_behind_a_pause_those_are_ahead_that_wait_for_its_end_too() -> None:
    constraint = replace(limit("pause-88fde3e2", key=None), concurrency=None, paused=True)
    one = snapshot(gates=(closed(is_paused=True),), jobs_ahead=JobsAhead({"mail": 3}, Accuracy.EXACT))
    found = verdicts(one, {CID: constraint}, fleet(worker()))
    assert found[1].text == "3 jobs that may start or wait for the same pause come before it."


def test_those_ahead_of_other_names_are_told_by_name() -> None:
    (verdict,) = verdicts(
        snapshot(jobs_ahead=JobsAhead({"mail": 2, "feed": 3}, Accuracy.EXACT)), {}, fleet(worker())
    )
    assert verdict == Ahead("mail", 5, Accuracy.EXACT, {"feed": 3})


# --- constraints


def test_a_holder_whose_worker_is_silent_is_told() -> None:
    gate = closed(concurrency=1, running=1, holders=(Holder("job-9", "worker-9", NOW_MS - 17_000),))
    workers = fleet(worker(), worker(9, age_ms=14_000))
    assert "job job-9 on worker worker-9 for 17 s (worker silent for 14 s)" in only(
        snapshot(gates=(gate,)), workers
    )


def test_a_full_gate_names_its_holders() -> None:
    gate = closed(concurrency=2, running=2, holders=HOLDERS[3:], waiting=42)
    assert only(snapshot(gates=(gate,))) == (
        "Waits for constraint per-host (argument.host = example.org): 2 of 2 slots taken: job job-3 on worker "
        "worker-3 for 24 s, "
        "job job-4 on worker worker-4 for 12 s. The constraint holds back 42 jobs, including those "
        "that are not due yet."
    )


def test_the_sentence_names_three_of_many_holders() -> None:
    gate = closed(gate_id=OTHER_CID + "0" * 16, concurrency=20, running=21, holders=HOLDERS, waiting=2)
    assert only(snapshot(gates=(gate,))) == (
        "Waits for constraint all-mail: 21 of 20 slots taken: job job-0 on worker worker-0 for 1 min, job job-1 "
        "on worker "
        "worker-1 for 48 s, job job-2 on worker worker-2 for 36 s, and 18 more. The constraint "
        "holds back 2 jobs, including those that are not due yet."
    )


def test_one_slot_without_known_holder() -> None:
    gate = closed(concurrency=1, running=1)
    assert only(snapshot(gates=(gate,))).endswith("example.org): 1 of 1 slots taken.")


def test_a_spent_rate_says_when_the_next_may_start() -> None:
    gate = closed(rate_limit=100, period_ms=60_000, starts=100, due_ms=NOW_MS + 12_500)
    assert only(snapshot(gates=(gate,))) == (
        "Waits for constraint per-host (argument.host = example.org): 100 of 100 starts in the last 1 min are "
        "used; the next "
        "may start in 12 s, at 2027-01-15T08:00:12.500Z."
    )


def test_a_hold_and_a_pause() -> None:
    held = closed(held_until_ms=NOW_MS + 90_000, due_ms=NOW_MS + 90_000)
    assert only(snapshot(gates=(held,))).endswith(
        "a worker asked to hold it until 2027-01-15T08:01:30.000Z, 1 min 30 s from now."
    )
    assert only(snapshot(gates=(closed(is_paused=True),))).endswith(
        "it is paused until somebody resumes it. `jqmaster constraints resume per-host --value VALUE` resumes it."
    )


def paused(
    *,
    name: str = "pause-88fde3e2",
    ends_ms: int | None = None,
    reason: str = "",
    waiting: int = 1,
    by: str = "",
) -> ByConstraint:
    constraint = replace(
        limit(name, key=None), concurrency=None, paused=True, reason=reason, expires_at_ms=ends_ms
    )
    one = snapshot(gates=(closed(is_paused=True, waiting=waiting),))
    (verdict,) = verdicts(one, {CID: constraint}, fleet(worker()))
    assert isinstance(verdict, ByConstraint)
    return replace(verdict, paused_by=by)


def test_a_pause_says_who_made_it_why_and_until_when() -> None:
    ends_ms = NOW_MS + 1_800_000
    timed = paused(ends_ms=ends_ms, reason="provider is down", by="user:ada", waiting=4)
    assert timed.text == (
        'Paused by ada until 2027-01-15T08:30:00.000Z, 30 min from now ("provider is down"). '
        "`jqmaster resume pause-88fde3e2` ends it sooner. "
        "The pause holds back 4 jobs, including those that are not due yet."
    )
    assert timed.gate.opens_at_ms == ends_ms
    lasting = paused()
    assert lasting.text == "Paused until somebody resumes it with `jqmaster resume pause-88fde3e2`."
    assert lasting.gate.opens_at_ms is None
    ended = paused(ends_ms=NOW_MS, by="token:42")
    assert ended.text == f"Paused by token:42 until {AT}: the leader is about to end the pause."


def test_a_paused_constraint_says_when_it_expires_or_how_to_resume_it() -> None:
    assert paused(name="all-mail").text == (
        "Waits for constraint all-mail: it is paused until somebody resumes it. "
        "`jqmaster constraints resume all-mail` resumes it."
    )
    expiring = paused(name="all-mail", ends_ms=NOW_MS + 60_000)
    assert "it is paused until it expires at 2027-01-15T08:01:00.000Z." in expiring.text
    assert expiring.gate.opens_at_ms == NOW_MS + 60_000


@pytest.mark.parametrize(
    ("figures", "opens_at_ms"),
    [
        ({"due_ms": NOW_MS + 1}, NOW_MS + 1),
        ({"due_ms": NOW_MS + 9}, NOW_MS + 5),
        # A slot may be free sooner.
        ({"concurrency": 1, "running": 1}, None),
        ({"is_paused": 1}, NOW_MS + 5),
    ],
)
def test_a_gate_opens_at_the_latest_when_its_constraint_expires(
    figures: dict[str, int], opens_at_ms: int | None
) -> None:
    gate = replace(GATE, is_closed=True, figures=figures, expires_at_ms=NOW_MS + 5)
    assert gate.opens_at_ms == opens_at_ms


def test_a_gate_that_several_limits_close_tells_them_all_the_most_lasting_first() -> None:
    gate = closed(
        is_paused=True,
        held_until_ms=NOW_MS + 1,
        observed_left=0,
        observed_until_ms=NOW_MS + 1,
        concurrency=1,
        running=1,
        rate_limit=1,
        period_ms=1000,
        starts=1,
    )
    (verdict,) = verdicts(snapshot(gates=(gate,)), CONSTRAINTS, fleet(worker()))
    assert isinstance(verdict, ByConstraint)
    assert verdict.kind is PAUSE
    assert closing(gate) == CLOSERS
    # The text names no time for a rate limit that the pause outlasts.
    assert verdict.text.endswith("1 of 1 starts in the last 1 s are used.")


def test_closed_gates_come_in_the_order_in_which_somebody_has_to_act() -> None:
    gates = (
        closed(rate_limit=1, period_ms=1000, starts=1, due_ms=NOW_MS + 1),
        closed(concurrency=1, running=1),
        closed(gate_id=OTHER_CID + "0" * 16, is_paused=True),
    )
    found = verdicts(snapshot(gates=gates), CONSTRAINTS, fleet(worker()))
    assert [v.kind for v in found if isinstance(v, ByConstraint)] == [
        PAUSE,
        CONCURRENCY,
        RATE,
    ]


def test_open_and_shadow_gates_and_those_of_removed_constraints_hold_nothing_back() -> None:
    gates = (
        GATE,
        closed(is_paused=True, is_shadow=True),
        closed(gate_id="ffffffff" + "0" * 16, is_paused=True),
    )
    assert codes(snapshot(gates=gates)) == ["next"]


def test_behind_a_closed_gate_the_jobs_ahead_are_told_as_well() -> None:
    one = snapshot(gates=(closed(is_paused=True),), jobs_ahead=JobsAhead({"mail": 3}, Accuracy.EXACT))
    assert codes(one, fleet()) == ["constraint", "no_worker", "ahead"]


def test_between_rules_it_says_which_are_in_force() -> None:
    assert "edition 3 is about to replace 2" in only(snapshot(settled_edition=2))
    assert "changed to edition 3, and the leader has not matched this job again" in only(
        snapshot(lane_edition=2)
    )


# --- workers


def test_no_worker_at_all() -> None:
    assert only(snapshot(), fleet(worker(1, "feed"))) == "No worker is registered for jobs named mail."


@pytest.mark.parametrize(
    ("workers", "similar"),
    [
        ([worker(1, "feed"), worker(2, "mails")], "mails"),
        ([worker(1, "mails", is_detached=True)], None),
        ([worker(1, "mails", age_ms=60_000)], None),
        ([worker(1, "mails"), worker(2, age_ms=60_000)], None),
    ],
)
def test_a_name_that_no_worker_knows_and_that_resembles_a_served_one_is_questioned(
    workers: list[Worker], similar: str | None
) -> None:
    (verdict,) = verdicts(snapshot(), {}, fleet(*workers))
    assert isinstance(verdict, NoWorker)
    assert verdict.similar == similar
    end = "No worker is registered for jobs named mail; did you mean mails?"
    assert (verdict.text == end) is (similar is not None)


def test_silent_and_detached_workers_are_counted() -> None:
    gone = fleet(
        worker(1, age_ms=20_000), worker(2, age_ms=6_000), worker(3, is_detached=True, age_ms=60_000)
    )
    (verdict,) = verdicts(snapshot(), {}, gone)
    assert isinstance(verdict, NoWorker)
    assert (verdict.stale, verdict.detached, verdict.last_seen_ms) == (2, 1, NOW_MS - 6_000)
    assert verdict.text == (
        "No live worker is registered for jobs named mail: 2 silent and 1 detached, last seen 6 s ago."
    )


@pytest.mark.req("M8")
def test_one_that_pulls_takes_a_job_while_it_asks() -> None:
    first, *rest = verdicts(snapshot(), {}, fleet(worker(url=None, polls_until_ms=NOW_MS + 1)))
    assert (first.code, rest) == ("next", [])
    first, *_ = verdicts(snapshot(), {}, fleet(worker(url=None, polls_until_ms=NOW_MS)))
    assert isinstance(first, WorkersUnavailable)
    assert first.pulling == 1


def test_each_unavailable_worker_counts_once_under_its_first_reason() -> None:
    workers = (
        worker(1, busy=4), worker(2, busy=5), worker(3, is_draining=True, busy=4), worker(4), worker(5), worker(6),
        worker(7, url=None), worker(8, age_ms=9_000),
    )  # fmt: skip
    reach = {
        "worker-4": Reachability(breaker="open"),
        "worker-5": Reachability(paused_ms=300),
        "worker-6": Reachability(refused_names=frozenset({"mail"})),
    }
    first, second = verdicts(snapshot(), {}, fleet(*workers, reach=reach))
    assert isinstance(first, WorkersUnavailable)
    assert (first.workers, first.full, first.draining, first.pulling) == (7, 2, 1, 1)
    assert (first.broken, first.paused, first.refusing, first.busy, first.max_jobs) == (1, 1, 1, 13, 28)
    assert first.text == (
        "None of the 7 live workers for jobs named mail takes a job now: 2 full (13 of 28 slots), 1 draining, 1 "
        "not reachable "
        "(circuit breaker open), 1 asked for a pause, 1 registered for the name and refused it as unknown, 1 not "
        "asking for jobs (they pull, because they have no address)."
    )
    assert second.code == "next"


def test_the_reason_of_the_last_failed_push_is_repeated() -> None:
    reach = {
        f"worker-{n}": Reachability(breaker="open", why=why)
        for n, why in enumerate(
            ["status 401: the signature", "cannot connect (refused)", "status 401: the signature", ""]
        )
    }
    first, *_ = verdicts(snapshot(), {}, fleet(*(worker(n) for n in range(4)), reach=reach))
    assert isinstance(first, WorkersUnavailable)
    assert (
        "4 not reachable (circuit breaker open: cannot connect (refused); status 401: the signature)"
        in first.text
    )


def test_one_free_worker_is_enough() -> None:
    assert codes(snapshot(), fleet(worker(1, busy=4), worker(2), worker(3, is_draining=True))) == ["next"]
    assert codes(snapshot(), fleet(worker(1), reach={"worker-1": Reachability(breaker="half_open")})) == [
        "next"
    ]
    other_name = Reachability(refused_names=frozenset({"feed"}))
    assert codes(snapshot(), fleet(worker(1, "mail", "feed"), reach={"worker-1": other_name})) == ["next"]


def test_without_the_lead_breakers_are_not_known() -> None:
    (verdict, _) = verdicts(snapshot(), {}, fleet(worker(busy=4), is_leader=False))
    assert isinstance(verdict, WorkersUnavailable)
    assert (verdict.full, verdict.broken, verdict.paused, verdict.refusing) == (1, None, None, None)
    assert verdict.text == (
        "The only live worker for jobs named mail takes no job now: 1 full (4 of 4 slots). Only the leader knows "
        "whether other workers are reachable."
    )


def test_rivals_are_the_other_names_of_the_workers_that_may_take_it() -> None:
    facts = fleet(
        worker(1, "mail", "feed"), worker(2, "mail", "sms"), worker(3, "video"),
        worker(4, "mail", "x", is_draining=True),
        worker(5, "mail", "y", is_detached=True), worker(6, "mail", "z", age_ms=9_000),
    )  # fmt: skip
    assert rival_names(JOB, NOW_MS, facts) == ["feed", "sms"]


# --- states


def test_a_scheduled_job_is_told_its_time_and_what_would_hold_it_back_then() -> None:
    job = replace(JOB, state=JobState.SCHEDULED, due_at_ms=NOW_MS + 3_725_000)
    assert only(snapshot(job)) == "Scheduled for later: it is due at 2027-01-15T09:02:05.000Z, in 1 h 2 min."
    one = snapshot(job, gates=(closed(is_paused=True),), has_leader=False)
    assert codes(one, fleet()) == ["no_leader", "scheduled", "constraint", "no_worker"]


def test_a_retrying_job_tells_how_often_it_failed() -> None:
    job = replace(JOB, state=JobState.RETRYING, due_at_ms=NOW_MS + 2_500, failures=2)
    assert only(snapshot(job)) == (
        "Waits for a retry after 2 failed attempts: it is due at 2027-01-15T08:00:02.500Z, in 2.5 s."
    )
    late = replace(job, due_at_ms=NOW_MS, failures=1)
    assert only(snapshot(late)) == (
        f"Waits for a retry after 1 failed attempt: it has been due since {AT}, and the leader is about to make "
        f"it ready."
    )


def test_a_job_that_the_index_does_not_lead_to_says_so_and_not_how_many_are_ahead() -> None:
    one = snapshot(index_fault="holds it at another place", lane_edition=2)
    assert codes(one) == ["index_missing"]
    assert "(its lane holds it at another place), so no claim finds it." in only(one)


def test_an_expired_job_waits_for_nothing_but_its_end() -> None:
    job = replace(JOB, expires_at_ms=NOW_MS)
    assert told(snapshot(job, has_leader=False, gates=(closed(is_paused=True),))) == [
        ("no_leader", "No master leads at present, so no job is dispatched."),
        ("expired", f"It expired at {AT} while it waited: it will be skipped, not run."),
    ]
    assert codes(snapshot(replace(JOB, expires_at_ms=NOW_MS + 1))) == ["next"]


def test_a_running_job_tells_where_and_how_long() -> None:
    job = replace(
        JOB,
        state=JobState.RUNNING,
        worker_id="worker-1",
        started_at_ms=NOW_MS - 12_000,
        attempt=2,
        is_confirmed=True,
    )
    earlier = snapshot(job, lease_until_ms=NOW_MS + 3_000, earlier_end="timeout")
    assert (
        " for 12 s. An earlier attempt ended on the same worker (timeout). If its handler still runs there, this "
        "attempt waits for that handler to end, or is handed back. Its lease ends at "
    ) in only(earlier, fleet(worker(1)))
    one = snapshot(job, lease_until_ms=NOW_MS + 3_000)
    assert told(one, fleet(worker(1, age_ms=400))) == [
        (
            "running",
            "Attempt 2 has been running on worker worker-1 since 2027-01-15T07:59:48.000Z, for 12 s. Its lease ends at "
            "2027-01-15T08:00:03.000Z unless it is renewed. The master ends it at 2027-01-15T08:00:28.000Z at "
            "the latest. The worker "
            "was last seen 0.4 s ago.",
        )
    ]
    offered = snapshot(replace(job, is_confirmed=False))
    assert only(offered, fleet()) == (
        "It was given to worker worker-1 at 2027-01-15T07:59:48.000Z, 12 s ago, as attempt 2. No heartbeat has "
        "named it yet. "
        "The master ends it at 2027-01-15T08:00:28.000Z at the latest. The worker is no longer registered."
    )


@pytest.mark.parametrize(
    ("state", "cause", "text"),
    [
        (JobState.SUCCEEDED, Cause.NONE, f"It ended at {AT}: succeeded."),
        (
            JobState.FAILED,
            Cause.TIMEOUT,
            f"It ended at {AT}: failed (cause: timeout). `jqmaster job {JOB.id}` shows its error, and `jqmaster retry "
            f"{JOB.id}` runs it again.",
        ),
        (
            JobState.CANCELED,
            Cause.CANCELED,
            f"It ended at {AT}: canceled (cause: canceled). `jqmaster job {JOB.id}` shows its history, and `jqmaster "
            f"retry {JOB.id}` runs it again.",
        ),
        (
            JobState.DISCARDED,
            Cause.NONE,
            f"It ended at {AT}: discarded. `jqmaster job {JOB.id}` shows the reason, and `jqmaster retry {JOB.id}` "
            "runs it again.",
        ),
        (JobState.SKIPPED, Cause.EXPIRED, f"It ended at {AT}: skipped (cause: expired)."),
    ],
)
def test_a_finished_job_is_over_whatever_else_there_is(state: JobState, cause: Cause, text: str) -> None:
    job = replace(JOB, state=state, cause=cause, finished_at_ms=NOW_MS)
    assert told(snapshot(job, has_leader=False, settled_edition=1), fleet()) == [("finished", text)]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (-5, "0 s"), (0, "0 s"), (449, "0.4 s"), (1_000, "1 s"), (9_940, "9.9 s"), (59_999, "59 s"), (60_000, "1 min"),
        (200_000, "3 min 20 s"), (3_600_000, "1 h"), (7_500_000, "2 h 5 min"), (349_200_000, "4 d 1 h"),
    ],
)  # fmt: skip
def test_spans_are_short(ms: int, text: str) -> None:
    assert span(ms) == text


@pytest.mark.req("P2", "P6")
@pytest.mark.parametrize(
    ("left_ms", "text"), [(90_000, "in 1 min 30 s"), (0, "0 s ago"), (-2_000, "2 s ago")]
)
def test_a_job_awaits_its_callback_until_its_deadline(left_ms: int, text: str) -> None:
    due_at_ms = NOW_MS + left_ms
    job = replace(JOB, state=JobState.AWAITING_CALLBACK, attempt=3, due_at_ms=due_at_ms)
    expected = (
        "Another system has the work of attempt 3. The wait for its callback ends at "
        f"{iso_ms(due_at_ms)}, {text}."
    )
    # The job does not wait for room: no worker needs to be there.
    assert told(snapshot(job, gates=(GATE,)), fleet()) == [("awaiting_callback", expected)]
    assert codes(snapshot(job, has_leader=False)) == ["awaiting_callback", "no_leader"]


@pytest.mark.req("P3")
def test_a_job_whose_callbacks_are_there_waits_for_a_worker() -> None:
    job = replace(JOB, state=JobState.AWAITING_CALLBACK, attempt=3)
    expected = "The callbacks of attempt 3 are there. The next free worker of its name takes them."
    assert told(snapshot(job)) == [("awaiting_callback", expected)]
    assert codes(snapshot(job), fleet()) == ["awaiting_callback", "no_worker"]
    assert codes(snapshot(job, has_leader=False), fleet()) == ["awaiting_callback", "no_leader", "no_worker"]


# --- labels and predecessors


def with_labels(one: Worker, **labels: str) -> Worker:
    return replace(one, spec=replace(one.spec, labels=labels))


def test_labels_that_no_worker_has_are_told_with_the_nearest_workers() -> None:
    job = replace(JOB, requires={"gpu": "1", "zone": "b"})
    workers = [with_labels(worker(1), zone="b"), with_labels(worker(2), gpu="2", zone="a")]
    assert told(snapshot(job), fleet(*workers)) == [
        (
            "no_matching_worker",
            "None of the 2 live workers for jobs named mail has the labels that the job requires (gpu=1, zone=b). "
            "Nearest: the worker on host node has no label gpu; the worker on host node has gpu=2 instead of 1, zone=a "
            "instead of b.",
        )
    ]
    assert only(snapshot(job), fleet(workers[0])) == (
        "The only live worker for jobs named mail does not have the labels that the job requires (gpu=1, zone=b). "
        "The nearest worker, on host node, has no label gpu."
    )
    nameless = replace(workers[0], spec=replace(workers[0].spec, node_id=""))
    assert only(snapshot(job), fleet(nameless)).endswith("The nearest worker, worker-1, has no label gpu.")
    assert codes(snapshot(job), fleet(with_labels(worker(), gpu="1", zone="b"))) == ["next"]


def test_predecessors_are_told_with_their_states() -> None:
    job = replace(JOB, state=JobState.AWAITING_JOBS)
    one = snapshot(job, awaits=(("job-1", "running"), ("job-2", None)), awaits_count=4)
    assert only(one) == "It waits for jobs job-1 (running), job-2 (gone) and 2 others."
    alone = snapshot(job, awaits=(("job-1", "ready"),), awaits_count=1)
    assert only(alone) == "It waits for job job-1 (ready)."


@pytest.mark.req("M13")
def test_a_target_that_cannot_be_reached_is_named_with_its_fault() -> None:
    one = worker(unreachable="cannot be reached (connection refused)", url=None)
    one = replace(one, spec=replace(one.spec, target="shop"))
    verdict = verdicts(snapshot(), {}, fleet(one, is_leader=False))[0]
    assert isinstance(verdict, WorkersUnavailable)
    assert verdict.broken == 1
    assert "target shop cannot be reached (connection refused)" in verdict.text


@pytest.mark.req("M13")
def test_a_job_that_was_put_off_tells_why() -> None:
    job = replace(JOB, state=JobState.SCHEDULED, due_at_ms=NOW_MS + 20_000)
    assert only(snapshot(job, put_off="the target answered 503")).endswith(
        "in 20 s. Its last attempt was put off: the target answered 503."
    )
