from hypothesis import given
from hypothesis import strategies as st

from jqmaster.domain.workers.breaker import DEFAULT_POLICY, Breaker, BreakerPolicy

FAILURES_TO_OPEN = DEFAULT_POLICY.failures_to_open
FIRST_OPEN_S, LONGEST_OPEN_S = DEFAULT_POLICY.first_open_s, DEFAULT_POLICY.longest_open_s


def opened(now_s: float = 0.0) -> Breaker:
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN):
        assert breaker.admits(now_s)
        breaker.begin_call()
        breaker.failed(now_s)
    return breaker


def test_it_opens_after_failures_in_a_row_only() -> None:
    breaker = Breaker()
    for _ in range(3):
        for _ in range(FAILURES_TO_OPEN - 1):
            breaker.failed(0.0)
        assert breaker.admits(0.0)
        breaker.succeeded()
    assert opened().admits(0.0) is False
    assert opened().state(0.0) == "open"
    assert Breaker().state(0.0) == "closed"
    assert not Breaker().is_half_open(0.0)


def test_one_probe_at_a_time_when_it_is_half_open() -> None:
    breaker = opened()
    assert not breaker.admits(FIRST_OPEN_S - 0.01)
    assert not breaker.is_half_open(FIRST_OPEN_S - 0.01)
    assert breaker.admits(FIRST_OPEN_S)
    assert breaker.is_half_open(FIRST_OPEN_S)
    assert breaker.state(FIRST_OPEN_S) == "half_open"
    breaker.begin_call()
    assert not breaker.admits(FIRST_OPEN_S)
    breaker.succeeded()
    assert breaker == Breaker()


def test_failing_probes_wait_longer_each_time_up_to_a_bound() -> None:
    breaker, now_s, waits = opened(), 0.0, []
    for _ in range(8):
        now_s = breaker.open_until_s
        breaker.begin_call()
        breaker.failed(now_s)
        waits.append(breaker.open_until_s - now_s)
    assert waits == [2, 4, 8, 16, 30, 30, 30, 30]


def test_late_failures_of_calls_that_began_before_do_not_lengthen_the_wait() -> None:
    breaker = opened()
    until_s = breaker.open_until_s
    breaker.failed(0.5)
    assert breaker.open_until_s == until_s


@given(st.lists(st.sampled_from(["ok", "fail", "wait"]), max_size=60))
def test_it_always_admits_again_after_the_longest_wait(events: list[str]) -> None:
    breaker, now_s = Breaker(), 0.0
    for event in events:
        if event == "wait":
            now_s += 0.7
        elif breaker.admits(now_s):
            breaker.begin_call()
            breaker.succeeded() if event == "ok" else breaker.failed(now_s)
    assert breaker.admits(now_s + LONGEST_OPEN_S)
    assert breaker.open_s <= LONGEST_OPEN_S


def test_a_changed_policy_counts_from_the_next_failure_on() -> None:
    policy = BreakerPolicy(2, 7.0, 10.0)
    breaker = Breaker(policy=lambda: policy)
    breaker.failed(0.0)
    assert breaker.state(0.0) == "closed"
    breaker.failed(0.0)
    assert breaker.state(6.9) == "open"
    policy = BreakerPolicy(1, 1.0, 9.0)
    breaker.begin_call()
    breaker.failed(7.0)
    assert (breaker.open_s, breaker.open_until_s) == (9.0, 16.0)
    breaker.succeeded()
    breaker.failed(20.0)
    assert breaker.open_until_s == 21.0
