"""The verdict on the health of the queue: which finding comes first, its sentence and its next step."""

from dataclasses import fields, replace
from datetime import date
from typing import Any, get_args

import pytest

from jqmaster.domain.calendars.ending import EndingCalendar
from jqmaster.domain.instant import about
from jqmaster.domain.operations import health
from jqmaster.domain.operations.health import judge, store_away
from jqmaster.domain.operations.health_facts import (
    FailingJobs,
    FullLimit,
    HealthFacts,
    LongWait,
    NewKind,
    PausedJobs,
    SilentProcess,
    TroubledDefinition,
)
from tests.support.findings import CAUSES, NOW_MS, WELL, one_of_each

pytestmark = pytest.mark.req("D32")

MAILS = FullLimit("mails", 1_140, 1_024, value="globex", rate=(60, 60_000))
DEPLOY = PausedJobs(
    "pause-1f2e3d4c", "pause", "name", "mail", 340, NOW_MS - 7_200_000, by="user:ana", reason="deploy",
    until_ms=NOW_MS + 60_000,
)  # fmt: skip
WAIT = LongWait("0198", "mail", 700_000)


def facts(**changes: Any) -> HealthFacts:
    return replace(WELL, **changes)


def test_jobs_at_a_limit_wait_and_nothing_is_broken() -> None:
    verdict = judge(facts(ready=1_140, limits=[MAILS]))
    assert verdict.status == "waiting"
    assert verdict.text == (
        "Jobs wait for constraint mails: 1,024 of 1,140 for globex at 60/min; about 17 min. Nothing is broken."
    )
    assert verdict.command == "jqmaster constraints show mails"
    (finding,) = verdict.findings
    assert (finding.jobs, finding.figures["eta_ms"], finding.figures["rate"]) == (1_140, 1_024_000, "60/min")


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        (FullLimit("one", 1, 1, rate=(1, 7_000), opens_at_ms=NOW_MS + 5_000),
         "1 job waits for constraint one at 1 in 7 s; about 7 s; the next may start in 5 s."),
        (FullLimit("slots", 8, 8, slots=2, running=2, opens_at_ms=NOW_MS + 10),
         "8 jobs wait for constraint slots, with 2 of 2 slots taken."),
        (FullLimit("held", 8, 8, value="acme", held_until_ms=NOW_MS + 5_000, opens_at_ms=NOW_MS + 5_000),
         "Jobs wait for constraint held: all 8 for acme, which a worker asked to hold until 2027-01-15T08:00:05.000Z."),
        (FullLimit("model", 12, 12, rate=(100_000, 60_000), unit="tokens", used=98_200, opens_at_ms=NOW_MS + 7_000),
         "12 jobs wait for constraint model at 100,000 tokens/min, 98,200 of them used; the next may start in 7 s."),
        (FullLimit("pool", 2, 2, slots=10, running=9.5, unit="connections"),
         "2 jobs wait for constraint pool, with 9.5 of 10 connections taken."),
        (FullLimit("new", 2, 2, rate=(5, 7_000), unit="mb"),
         "2 jobs wait for constraint new at 5 mb in 7 s, 0 of them used."),
        (FullLimit("odd name", 3, 3, rate=(2, 86_400_000)),
         "3 jobs wait for constraint odd name at 2/day; about 36 h."),
    ],
)  # fmt: skip
def test_each_kind_of_limit_says_what_it_waits_for(limit: FullLimit, text: str) -> None:
    verdict = judge(facts(ready=8, limits=[limit]))
    assert verdict.findings[0].text == text
    assert verdict.text == f"{text} Nothing is broken."


@pytest.mark.parametrize(
    ("changes", "status", "code", "words"),
    [
        ({"has_leader": False}, "broken", "no_leader", "No master leads"),
        ({"late_leader": SilentProcess("node-1", NOW_MS - 12_000)}, "broken", "late_leader", "node-1 is late"),
        ({"store_faults": ["the disk is full"]}, "broken", "store", "refused: the disk is full."),
        ({"is_less_durable": True, "given_durability": "besteffort"}, "broken", "durability", "only besteffort"),
        ({"memory_bytes": 85, "max_memory_bytes": 100}, "degraded", "memory", "85%"),
        ({"memory_bytes": 96, "max_memory_bytes": 100}, "broken", "memory", "96%"),
        ({"fresh_workers": 0, "ready": 1}, "broken", "no_worker", "1 job waits, but no worker is live."),
        ({"unserved": [("mail", 2)], "ready": 2}, "broken", "orphan", "jobs named mail: 2 jobs wait."),
        ({"definitions": [TroubledDefinition("nightly", False, NOW_MS - 60_000)]}, "broken", "late_definition",
         "was due 1 min ago"),
        ({"definitions": [TroubledDefinition("a b", True, NOW_MS - 60_000)]}, "degraded", "missed_instant",
         "missed its run 1 min ago"),
        ({"definitions": [TroubledDefinition("nightly", False, 0, 3)]}, "degraded", "skipping_definition",
         "skips its runs, the last 3 in a row"),
        ({"calendars": [EndingCalendar("japan", date(2028, 12, 31), 2, "jqmaster calendars put japan")]}, "degraded",
         "calendar_ends", "knows holidays until 2028-12-31, and 2 definitions use it"),
        ({"longest": WAIT, "ready": 1}, "broken", "wait", "has waited 11 min 40 s. No limit holds it back."),
        ({"longest": replace(WAIT, cause="All are full.", is_queued=True), "ready": 1}, "degraded", "wait",
         "11 min 40 s. All are full."),
        ({"longest": replace(WAIT, wait_ms=61_000), "ready": 1}, "degraded", "wait", "1 min 1 s"),
        ({"failing": [FailingJobs("mail", 42, 0.36, NewKind("new", "error", NOW_MS - 600_000))]}, "degraded", "failing",
         "42 jobs named mail failed in the last hour (36%). A new kind of failure (error) began 10 min ago."),
        ({"failing": [FailingJobs("mail", 42, 0.36, NewKind("regressed", "lost", 0, "2.3"))]}, "degraded", "failing",
         "A kind of failure (lost) came back after a day without it on version 2.3 of its workers."),
        ({"failing": [FailingJobs("mail", 1, 1.0)]}, "degraded", "failing", "1 job named mail failed"),
        ({"failed_lately": 30, "failed_before": 4.0}, "degraded", "rising", "30 jobs failed in the last 10 minutes"),
        ({"stale_workers": 2}, "degraded", "stale_workers", "2 workers are silent."),
        ({"stale_workers": 1}, "degraded", "stale_workers", "1 worker is silent."),
        ({"detached_workers": [SilentProcess("node-2:7", NOW_MS - 9_000, 3)]}, "broken", "dead_worker",
         "3 jobs are still assigned to it."),
        ({"detached_workers": [SilentProcess("node-2:7", NOW_MS - 9_000)]}, "degraded", "dead_worker", "9 s ago."),
        ({"stale_masters": 1}, "degraded", "stale_masters", "1 master is silent."),
        ({"duty_faults": ["notices fail."]}, "degraded", "duty", "fails: notices fail."),
        ({"latency_ms": 240.2}, "degraded", "latency", "240 ms"),
    ],
)  # fmt: skip
def test_each_fault_is_named_with_its_next_step(
    changes: dict[str, Any], status: str, code: str, words: str
) -> None:
    verdict = judge(facts(**changes))
    assert (verdict.status, verdict.findings[0].code) == (status, code)
    assert verdict.status in ("degraded", "broken")
    assert words in verdict.text
    assert "Nothing is broken" not in verdict.text
    assert verdict.command is not None
    assert verdict.command.startswith("jqmaster ")
    assert "\n" not in verdict.text


@pytest.mark.parametrize(
    "changes",
    [
        {"failed_lately": 9},
        {"failed_lately": 30, "failed_before": 20.0},
        {"latency_ms": 99.0},
        {"memory_bytes": 79, "max_memory_bytes": 100},
        {"longest": replace(WAIT, wait_ms=59_999)},
        {"longest": WAIT, "fresh_workers": 0},
    ],
)
def test_usual_facts_are_no_finding(changes: dict[str, Any]) -> None:
    assert judge(facts(**changes)).findings == ()


def test_jobs_that_no_worker_runs_are_one_finding_however_long_they_wait() -> None:
    verdict = judge(facts(ready=2, longest=WAIT, unserved=[("mail", 2)]))
    assert [one.code for one in verdict.findings] == ["orphan"]
    verdict = judge(facts(ready=3, longest=WAIT, unserved=[("video", 2)]))
    assert [one.code for one in verdict.findings] == ["orphan", "wait"]


def test_a_worker_that_another_one_replaced_is_reported_and_all_is_well() -> None:
    gone = SilentProcess("node-2:7", NOW_MS - 9_000, id="w-7", successor="node-2:8")
    verdict = judge(facts(detached_workers=[gone]))
    assert (verdict.status, verdict.command, verdict.text) == (
        "ok",
        None,
        "No job runs or waits. Nothing is broken.",
    )
    (finding,) = verdict.findings
    assert (finding.severity, finding.code, finding.key) == ("info", "replaced_worker", "replaced_worker w-7")
    assert finding.text == "Worker node-2:7 ended (last heard 9 s ago), and node-2:8 took its place."
    # A pause comes before a report, even while no job waits for it.
    pause = replace(DEPLOY, waiting=0)
    assert judge(facts(detached_workers=[gone], pauses=[pause])).status == "waiting"


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ({"memory_bytes": 85, "max_memory_bytes": 100}, {"memory_bytes": 86, "max_memory_bytes": 100}, True),
        ({"memory_bytes": 85, "max_memory_bytes": 100}, {"memory_bytes": 96, "max_memory_bytes": 100}, False),
        ({"longest": WAIT}, {"longest": replace(WAIT, wait_ms=800_000)}, True),
        ({"longest": replace(WAIT, wait_ms=61_000)}, {"longest": WAIT}, False),
        # A worker whose jobs were taken back is still the same fault, and a pause that was changed is another one.
        ({"detached_workers": [SilentProcess("n:1", 0, 3, "w")]},
         {"detached_workers": [SilentProcess("n:1", 0, 0, "w")]}, True),
        ({"pauses": [DEPLOY]}, {"pauses": [replace(DEPLOY, waiting=9)]}, True),
        ({"pauses": [DEPLOY]}, {"pauses": [replace(DEPLOY, since_ms=NOW_MS)]}, False),
        ({"definitions": [TroubledDefinition("n", True, 1)]},
         {"definitions": [TroubledDefinition("n", True, 2)]}, False),
    ],
)  # fmt: skip
def test_the_key_of_a_finding_lasts_until_it_becomes_worse(
    before: dict[str, Any], after: dict[str, Any], is_same: bool
) -> None:
    first, second = (judge(facts(**one)).findings[0].key for one in (before, after))
    assert (first == second) is is_same


@pytest.mark.parametrize(
    ("failed", "share", "expected"), [(3, 0.95, True), (2, 0.0, False), (3, 0.96, False), (3, None, False)]
)
def test_a_name_is_failing_from_a_share_and_a_number_of_failures_on(
    failed: int, share: float | None, expected: bool
) -> None:
    assert health.is_failing(failed, share) is expected


def test_names_are_quoted_for_the_shell() -> None:
    verdict = judge(facts(definitions=[TroubledDefinition("a b", True, NOW_MS)]))
    assert verdict.command == "jqmaster definitions runs 'a b'"


def test_a_pause_tells_who_paused_what_and_why() -> None:
    verdict = judge(facts(ready=340, pauses=[DEPLOY]))
    assert verdict.text == (
        "Paused by user:ana since 2027-01-15T06:00:00.000Z (deploy), until 2027-01-15T08:01:00.000Z: jobs named mail. "
        "340 jobs wait. Nothing is broken."
    )
    assert (verdict.status, verdict.command) == ("waiting", "jqmaster pauses")


@pytest.mark.parametrize(
    ("of", "words"),
    [
        ("tag", "jobs tagged x"), ("value", "jobs with argument.host = x"), ("constraint", "jobs of constraint x"),
        ("matcher", "jobs that match a condition"),
    ],
)  # fmt: skip
def test_a_pause_names_its_jobs(of: Any, words: str) -> None:
    pause = PausedJobs("x", "paused", of, "x", 1, NOW_MS, key="argument.host")
    assert judge(facts(pauses=[pause])).text == f"Paused: {words}. 1 job waits. Nothing is broken."


def test_the_cause_that_holds_most_jobs_comes_first() -> None:
    verdict = judge(facts(ready=1_480, limits=[replace(MAILS, held=10, waiting=10)], pauses=[DEPLOY]))
    assert [one.code for one in verdict.findings] == ["pause", "full"]


def test_the_worst_comes_first() -> None:
    verdict = judge(facts(ready=9, limits=[MAILS], stale_workers=1, has_leader=False, latency_ms=500.0))
    assert [one.severity for one in verdict.findings] == ["bad", "warn", "warn", "info"]
    assert verdict.status == "broken"


def test_every_code_has_a_cause_and_each_cause_has_one_finding() -> None:
    assert set(one_of_each()) == set(get_args(health.FindingCode))
    for code, changes in CAUSES.items():
        assert [one.code for one in judge(facts(**changes)).findings] == [code]


@pytest.mark.parametrize("second", CAUSES)
@pytest.mark.parametrize("first", CAUSES)
def test_the_status_is_always_that_of_the_worst_finding(first: str, second: str) -> None:
    verdict = judge(facts(**{**CAUSES[first], **CAUSES[second]}))
    severities = {one.severity for one in verdict.findings}
    assert verdict.findings[0].severity == min(severities, key=["bad", "warn", "info"].index)
    assert {"bad": "broken", "warn": "degraded"}.get(
        verdict.findings[0].severity, verdict.status
    ) == verdict.status
    # Without anything to do, the status says whether jobs wait.
    if severities == {"info"}:
        is_wait = {one.code for one in verdict.findings} != {"replaced_worker"}
        assert verdict.status == ("waiting" if is_wait else "ok")


GROWS = (100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000)


def test_a_backlog_that_grows_is_a_warning_unless_a_limit_or_a_pause_explains_it() -> None:
    verdict = judge(facts(ready=1_000, backlog=GROWS))
    assert verdict.text == "The backlog grew from 100 to 1,000 jobs in 10 minutes."
    assert (verdict.status, verdict.findings[0].figures["per_min"]) == ("degraded", 100.0)
    assert "All 4 slots of the workers are taken." in judge(facts(ready=1_000, backlog=GROWS, slots=4)).text
    explained = judge(facts(ready=1_000, backlog=GROWS, pauses=[DEPLOY], limits=[replace(MAILS, held=400)]))
    assert explained.status == "waiting"
    assert [one.code for one in explained.findings] == ["full", "pause", "growth"]


def test_a_backlog_that_drains_says_when_it_is_empty() -> None:
    verdict = judge(facts(ready=1_140, backlog=tuple(1_680 - 60 * n for n in range(10))))
    assert verdict.text == (
        "1,140 jobs are ready; the backlog shrinks by 60 a minute and is empty in about 19 min. Nothing is broken."
    )


def test_a_minute_without_a_sample_does_not_hide_a_backlog_that_grows() -> None:
    gap = (*GROWS[:4], None, *GROWS[5:])
    assert [one.code for one in judge(facts(ready=1_000, backlog=gap)).findings] == ["growth"]


@pytest.mark.parametrize(
    "backlog",
    [(), (5,), (50,) * 10, tuple(range(40, 30, -1)), (0, 900, 0, 900, 0), (None, 900), (0, None),
     (5, 1, 2, 3, 4, 5, 6, None, 3, 200)],
)  # fmt: skip
def test_a_backlog_that_stays_or_is_not_known_is_no_finding(backlog: tuple[int | None, ...]) -> None:
    assert judge(facts(ready=50, backlog=backlog)).findings == ()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "No job runs or waits."),
        ({"running": 3}, "3 jobs run, and none waits."),
        (
            {"running": 1, "ready": 2, "oldest_wait_ms": 400},
            "1 job runs, and 2 are ready, the oldest for 0.4 s.",
        ),
        ({"ready": 1}, "0 jobs run, and 1 is ready."),
    ],
)
def test_all_is_well(changes: dict[str, Any], text: str) -> None:
    verdict = judge(facts(**changes))
    assert (verdict.status, verdict.command, verdict.text) == ("ok", None, f"{text} Nothing is broken.")


def test_a_store_that_does_not_answer_is_a_verdict() -> None:
    verdict = store_away("connection refused.")
    assert verdict.status in ("degraded", "broken")
    assert verdict.text.endswith("connection refused.")
    assert verdict.command == "jqmaster doctor"


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "1 s"), (89_000, "89 s"), (90_000, "2 min"), (5_390_000, "90 min"), (7_200_000, "2 h"),
     (40 * 86_400_000, "40 days")],
)  # fmt: skip
def test_an_estimate_has_one_unit(ms: int, text: str) -> None:
    assert about(ms) == text


def test_the_facts_have_no_default_that_hides_a_forgotten_one() -> None:
    assert {one.name for one in fields(HealthFacts)} == {one.name for one in fields(WELL)}
    with pytest.raises(TypeError):
        HealthFacts(now_ms=1)  # type: ignore[call-arg]
    assert health.WAIT_WARN_MS < health.WAIT_BAD_MS
