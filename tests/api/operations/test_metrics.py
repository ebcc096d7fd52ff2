"""/metrics: true, bounded, and available when the store is not."""

import signal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jqmaster.domain.operations.tally import OTHER
from jqmaster.service.operations.metric_catalog import METRICS
from jqmaster.service.operations.metrics import MAX_NAMES, bounded
from tests.support import long, real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER

# Many times as many as there may be series.
NAMES = long.size(2_000, 10_000)
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scraped(api: Api) -> Samples:
    # This is the header that Prometheus sends.
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"
    response = await api.http.get("/metrics", headers={"Accept": accept})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def value(samples: Samples, metric: str, /, **labels: str) -> float | None:
    return samples.get((metric, frozenset(labels.items())))


async def test_metrics_count_each_event(api: Api) -> None:
    limit = {"matcher": {"field": "name", "op": "eq", "value": "work"}, "concurrency": 3}
    assert (await api.call("PUT", "/api/constraints/limit", limit))[0] == 201
    async with worker_at(api) as worker:
        for kind in ("success", "failure"):
            await api.enqueue("work", max_retry=0)
            await worker.end(await worker.next_job(), kind)
        await api.enqueue("work")
        await worker.next_job()
        for _ in range(2):
            await api.enqueue("elsewhere")
        assert (await api.http.get("/api/jobs/nonsense/why")).status_code == 404

        async def complete() -> Samples | None:
            # The contents of the store are sampled once a second.
            samples = await scraped(api)
            is_there = value(samples, "jqmaster_ready_jobs", name="elsewhere") == 2
            is_there = (
                is_there and value(samples, "jqmaster_oldest_wait_seconds", name="elsewhere") is not None
            )
            return (
                samples
                if is_there and value(samples, "jqmaster_constraint_running", constraint="limit")
                else None
            )

        samples = await wait_until(complete)
    expected = {
        ("jqmaster_jobs_pushed_total", "name=work"): 3,
        ("jqmaster_jobs_ended_total", "name=work outcome=succeeded"): 1,
        ("jqmaster_jobs_ended_total", "name=work outcome=failed"): 1,
        ("jqmaster_attempts_ended_total", "name=work outcome=retried"): 0,
        ("jqmaster_job_wait_seconds_count", "name=work"): 3,
        ("jqmaster_job_wait_seconds_bucket", "name=work le=+Inf"): 3,
        ("jqmaster_job_run_seconds_count", "name=work"): 2,
        ("jqmaster_jobs_in_state", "state=running"): 1,
        ("jqmaster_constraint_running", "constraint=limit"): 1,
        ("jqmaster_constraint_limit", "constraint=limit"): 3,
        ("jqmaster_workers", "state=fresh"): 1,
        ("jqmaster_worker_slots", "state=busy"): 1,
        ("jqmaster_is_leader", ""): 1,
        ("jqmaster_times_led_total", ""): 1,
        ("jqmaster_store_up", ""): 1,
        ("jqmaster_http_requests_total", "method=POST route=/api/jobs status=201"): 5,
        ("jqmaster_http_requests_total", "method=GET route=/api/jobs/{job_id}/why status=404"): 1,
        ("jqmaster_http_request_seconds_count", "method=POST route=/api/jobs"): 5,
    }
    for (name, labels), wanted in expected.items():
        found = value(samples, name, **dict(label.split("=", 1) for label in labels.split()))
        assert found == wanted, (name, labels)
    assert value(samples, "jqmaster_store_round_trip_seconds_count", script="enqueue")
    assert value(samples, "jqmaster_store_script_calls_total", script="claim")
    assert value(samples, "jqmaster_leader_epoch")
    assert value(samples, "process_cpu_seconds_total")
    ours = {name for name, _ in samples if name.startswith("jqmaster_")}
    for info in METRICS.values():
        told = {name for name in ours if name.startswith(info.name)}
        assert told or info.name in (
            "jqmaster_faults",
            "jqmaster_duty_faults",
            "jqmaster_certificate_expiry_timestamp_seconds",
            "jqmaster_store_memory_max_bytes",
            "jqmaster_store_failures",
            # It has values once there are several namespaces, as tests/app/test_namespace_metrics.py shows.
            "jqmaster_namespace_up",
            # They have values once there is a target, as tests/api/targets shows.
            "jqmaster_target_requests",
            "jqmaster_target_request_seconds",
        ), info.name


@pytest.mark.sized
@pytest.mark.rule("E6.3")
async def test_thousands_of_names_are_a_bounded_number_of_series(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (_, api):
        for start in range(0, NAMES, NAMES // 2):
            jobs = [{"name": f"kind.{n}", "argument": None} for n in range(start, start + NAMES // 2)]
            assert (await api.call("POST", "/api/jobs/bulk", {"jobs": jobs}))[0] == 201
        for n in range(300):
            await api.http.get(f"/api/jobs/{n}?x={n}")
            await api.http.request(f"VERB{n}", f"/api/nothing{n}")
        samples = await scraped(api)
    names = {dict(labels)["name"] for metric, labels in samples if metric.startswith("jqmaster_jobs_pushed")}
    assert len(names) <= 501
    assert OTHER in names
    pushed = [v for (metric, _), v in samples.items() if metric == "jqmaster_jobs_pushed_total"]
    assert sum(pushed) == NAMES
    ready = [v for (metric, _), v in samples.items() if metric == "jqmaster_ready_jobs"]
    assert len(ready) <= MAX_NAMES + 1
    assert sum(1 for metric, _ in samples if metric.startswith("jqmaster_http_requests")) < 30
    assert len(samples) < 12_000


def test_names_beyond_the_bound_are_told_as_one() -> None:
    ready = {f"n{n}": (n, n * 10 if n % 2 else None) for n in range(1, MAX_NAMES + 4)}
    told = bounded(ready)
    assert len(told) == MAX_NAMES + 1
    assert told[OTHER] == (1 + 2 + 3, 30)
    assert sum(count for count, _ in told.values()) == sum(count for count, _ in ready.values())


async def test_a_store_that_is_away_keeps_no_counter_from_being_read(store: StoreServer) -> None:
    async with master_on(store.url, store_timeout_s=0.5) as (_, api):
        await api.enqueue("work")
        store.signal(signal.SIGSTOP)
        try:

            async def told() -> Samples | None:
                samples = await scraped(api)
                return samples if value(samples, "jqmaster_store_up") == 0 else None

            samples = await wait_until(told)
            assert value(samples, "jqmaster_jobs_pushed_total", name="work") == 1
            assert value(samples, "jqmaster_leader_epoch") is None
        finally:
            store.signal(signal.SIGCONT)
        await wait_until(lambda: is_up(api))


async def is_up(api: Api) -> bool:
    return value(await scraped(api), "jqmaster_store_up") == 1
