"""The causes for which many jobs wait are told in one sentence."""

from dataclasses import replace

import pytest

from jqmaster.domain.constraints.constraint import Constraint
from jqmaster.domain.constraints.gate_check import GateCheck
from jqmaster.domain.constraints.limit_kind import GateCloser
from jqmaster.domain.constraints.limit_kinds import CONCURRENCY, HOLD, PAUSE, RATE
from jqmaster.domain.matching.matcher import parse_matcher
from jqmaster.domain.matching.paths import parse_path
from jqmaster.domain.why.causes import MAX_NAMES, WaitCause, merged, summary
from jqmaster.domain.why.facts import Accuracy
from jqmaster.domain.why.verdict import Ahead, ByConstraint, Next, NoLeader, Verdict
from jqmaster.domain.why.worker_verdicts import NoWorker

pytestmark = pytest.mark.req("J13")

JOB = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
CID = "0000aaaa"


def closed(
    name: str,
    kind: GateCloser,
    *,
    key: str | None = None,
    value: str = "",
    reason: str = "",
    unit: str = "",
    gate_id: str = "",
    **figures: int,
) -> ByConstraint:
    matcher = parse_matcher({"field": "name", "op": "exists"})
    constraint = Constraint(
        name, CID, matcher, key=parse_path(key) if key else None, reason=reason, paused=True
    )
    gate = GateCheck(
        gate_id=gate_id or f"{CID}{value:1>16}",
        value=value,
        waiting=1,
        is_closed=True,
        is_override=False,
        figures=figures,
        holders=(),
        unit=unit,
    )
    return ByConstraint(constraint, gate, kind, 0, {})


def cause(count: int, verdict: Verdict, *names: str) -> WaitCause:
    return WaitCause(count, verdict, JOB, names or ("mail",))


PER_HOST = closed(
    "mail-per-host", RATE, key="argument.host", value="globex", rate_limit=60, period_ms=60_000, starts=60
)
PAUSED = closed("newsletter-off", PAUSE, is_paused=1, reason="GDPR review")
PAUSED_BY_ADA = replace(
    closed("pause-0a1b", PAUSE, is_paused=1, reason="provider is down"), paused_by="user:ada"
)
NOBODY = NoWorker("mail", 0, 0, None, 0)


def test_the_causes_of_a_backlog_are_one_sentence() -> None:
    causes = [cause(880, PER_HOST), cause(147, PAUSED), cause(12, PAUSED_BY_ADA), cause(1, NOBODY)]
    assert summary(1_040, is_exact=True, examined=1_040, causes=causes) == (
        "1,040 jobs wait: 880 for mail-per-host at globex (60/min, about 15 min), "
        "147 for newsletter-off (paused: GDPR review), 12 paused by ada: provider is down, 1 without a worker."
    )


def test_the_causes_say_which_jobs_were_not_examined() -> None:
    causes = [cause(2_000, NOBODY)]
    assert summary(9_000, is_exact=False, examined=2_000, causes=causes) == (
        "At least 9,000 jobs wait. 2,000 of them: 2,000 without a worker."
    )
    assert summary(1, is_exact=True, examined=0, causes=[]) == "1 job waits."
    assert summary(0, is_exact=True, examined=0, causes=[]) == "No job waits to start."


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (closed("slots", CONCURRENCY, concurrency=3, running=3), "5 for slots (3 of 3 slots taken)"),
        (closed("held", HOLD, held_until_ms=1), "5 for held (held back by a worker)"),
        (closed("off", PAUSE, is_paused=1), "5 for off (paused)"),
        (closed("pause-0a1b", PAUSE, is_paused=1, reason="late"), "5 paused: late"),
        (NoLeader(), "5 until a master is elected leader"),
        (Next(), "5 for other jobs to start first"),
    ],
)
def test_each_cause_has_its_words(verdict: Verdict, text: str) -> None:
    one = cause(5, verdict)
    assert one.text == text
    assert one.eta_ms is None


def test_a_rate_tells_how_long_all_of_them_take() -> None:
    assert cause(90, PER_HOST).eta_ms == 90_000


def test_a_rate_in_units_promises_no_time() -> None:
    limit = closed(
        "tokens", RATE, unit="tokens", weight_default=1_000, window_most=60_000, window_left=0, period_ms=60_000,
    )  # fmt: skip
    one = cause(5, limit)
    assert one.eta_ms is None
    assert "tokens taken" in one.text


def test_equal_causes_are_joined_and_the_largest_is_first() -> None:
    other = closed("mail-per-host", RATE, key="argument.host", value="acme", rate_limit=60, period_ms=60_000)
    ahead = Ahead("mail", 3, Accuracy.EXACT, {})
    found = merged([
        cause(1, NOBODY, "a"), cause(2, PER_HOST), cause(3, other), cause(4, NOBODY, "b"), cause(5, PER_HOST, "a"),
        cause(1, ahead), cause(1, Next()),
    ])  # fmt: skip
    assert [(one.count, one.names) for one in found] == [
        (7, ("mail", "a")), (5, ("a", "b")), (3, ("mail",)), (2, ("mail",)),
    ]  # fmt: skip
    # Values that the caller may not see look alike, and stay apart.
    hidden = [
        closed(
            "mail-per-host", RATE, key="argument.host", value="[hidden]", gate_id=f"{CID}{n}", rate_limit=60
        )
        for n in range(3)
    ]
    assert len(merged([cause(90, one) for one in hidden])) == 3
    many = merged([cause(1, NOBODY, f"name-{n}") for n in range(2 * MAX_NAMES)])
    assert len(many[0].names) == MAX_NAMES
