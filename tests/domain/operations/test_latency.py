"""Durations and traffic of several processes add up to those of the whole."""

from jqmaster.domain.operations.latency import BOUNDS_S, Latencies, Latency, Traffic


def test_durations_are_counted_below_the_bound_that_they_do_not_exceed() -> None:
    latency = Latency()
    for seconds in (BOUNDS_S[0], BOUNDS_S[0] * 1.001, BOUNDS_S[-1] * 2):
        latency.add(seconds)
    assert latency.counts == [1, 1, *[0] * (len(BOUNDS_S) - 2), 1]
    assert latency.sum_s == BOUNDS_S[0] * 2.001 + BOUNDS_S[-1] * 2


def test_merged_durations_are_those_of_both() -> None:
    one, other = Latency(), Latency()
    one.add(BOUNDS_S[0])
    other.add(BOUNDS_S[0])
    other.add(BOUNDS_S[1])
    one.merge(other)
    assert (one.counts[:3], one.sum_s) == ([2, 1, 0], BOUNDS_S[0] * 2 + BOUNDS_S[1])
    assert sum(other.counts) == 2, "the other one stays as it was"


def test_a_kind_of_call_begins_with_its_first_duration() -> None:
    latencies = Latencies[str]()
    latencies["GET"].add(BOUNDS_S[0])
    assert {kind: sum(latency.counts) for kind, latency in latencies.items()} == {"GET": 1}


def test_merged_traffic_has_the_routes_and_statuses_of_both() -> None:
    one, other = Traffic(), Traffic()
    one.of("POST", "/v1/jobs").add(201, 0.5)
    other.of("POST", "/v1/jobs").add(201, 0.25)
    other.of("POST", "/v1/jobs").add(429, 0.25)
    other.of("GET", "/v1/jobs").add(200, 0.25)
    one.merge(other)
    assert {route: (traffic.answers, traffic.latency.sum_s) for route, traffic in one.routes.items()} == {
        ("POST", "/v1/jobs"): ({201: 2, 429: 1}, 1.0),
        ("GET", "/v1/jobs"): ({200: 1}, 0.25),
    }
    one.of("GET", "/v1/jobs").add(200, 0.25)
    assert other.routes["GET", "/v1/jobs"].answers == {200: 1}, "the other one stays as it was"
