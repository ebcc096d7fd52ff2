"""Several namespaces share labels for job names in the metrics, and sums that never fall."""

import pytest

from jqmaster.domain.operations.latency import Traffic
from jqmaster.domain.operations.tally import OTHER, NameCounts
from jqmaster.service.operations.metrics import MAX_NAMES, StoreFacts
from jqmaster.service.operations.metrics_page import NamePool, shared_places
from jqmaster.service.operations.process_metrics import ProcessCounts

pytestmark = pytest.mark.req("D29")

Counts = dict[str, dict[str, NameCounts]]


def pushed(**names: dict[str, int]) -> Counts:
    return {
        namespace: {name: NameCounts(pushed=count) for name, count in counts.items()}
        for namespace, counts in names.items()
    }


def labels(counts: Counts) -> dict[str, dict[str, int]]:
    return {namespace: {name: of.pushed for name, of in names.items()} for namespace, names in counts.items()}


def test_the_most_used_names_of_all_namespaces_get_labels() -> None:
    found = NamePool(2).labeled(pushed(shop={"a": 5, "b": 1}, mail={"a": 3, "c": 2}))
    assert labels(found) == {"shop": {"a": 5, OTHER: 1}, "mail": {"a": 3, OTHER: 2}}


def test_a_name_keeps_its_label_whatever_comes_later() -> None:
    pool = NamePool(2)
    pool.labeled(pushed(shop={"a": 1}, mail={"b": 1}))
    found = pool.labeled(pushed(shop={"a": 1, "hot": 99}, mail={"b": 1}))
    assert labels(found) == {"shop": {"a": 1, OTHER: 99}, "mail": {"b": 1}}
    # The places of a namespace that is closed are free, but a name whose counts went to the sum stays there.
    found = pool.labeled(pushed(shop={"a": 1, "hot": 100, "new": 2}))
    assert labels(found) == {"shop": {"a": 1, "new": 2, OTHER: 100}}


def test_names_that_the_tally_has_added_up_take_no_place() -> None:
    found = NamePool(1).labeled(pushed(shop={OTHER: 9, "a": 1}))
    assert labels(found) == {"shop": {OTHER: 9, "a": 1}}


def facts(ready: dict[str, int]) -> StoreFacts:
    return StoreFacts(
        jobs={},
        ready={name: (count, None) for name, count in ready.items()},
        startable_wait_ms={},
        running={},
        slots_by_name={},
        constraints=[],
        workers={},
        slots={},
        epoch=1,
        log_bytes=0,
        log_archive_lag_ms=0,
    )


def test_the_bound_of_gauges_is_that_of_all_namespaces_together() -> None:
    many = facts({f"work-{n}": 10 for n in range(MAX_NAMES)})
    places = shared_places({"busy": many, "small": facts({"mail": 20, "page": 1})})
    ready = {namespace: most["jqmaster_ready_jobs"] for namespace, most in places.items()}
    assert ready == {"busy": MAX_NAMES - 1, "small": 1}


def test_sums_of_the_process_do_not_fall_when_a_namespace_is_closed() -> None:
    counts = ProcessCounts()
    default, shop = Traffic(), Traffic()
    for traffic, times in ((default, 1), (shop, 3)):
        for _ in range(times):
            traffic.of("GET", "/api/jobs").add(200, 0.002)

    def answered() -> int:
        return sum(
            of_route.answers.get(200, 0)
            for traffic in counts.traffics
            for of_route in traffic.routes.values()
        )

    counts.update([default, shop], [])
    assert answered() == 4
    counts.update([default], [])
    counts.update([default], [])
    assert answered() == 4
    # Open again, it counts from zero.
    again = Traffic()
    again.of("GET", "/api/jobs").add(200, 0.002)
    counts.update([default, again], [])
    assert answered() == 5
