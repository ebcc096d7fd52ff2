"""The rules and the dashboards ask a live master for what it has: metrics, labels and values of labels."""

import re
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from jqmaster.service.operations.metric_catalog import METRICS
from tests.contract.test_metrics_doc import named, queries
from tests.support import real_time
from tests.support.master import Api
from tests.support.scripted_worker import worker_at
from tests.support.waiting import wait_until
from tools.runbooks import sections

pytestmark = real_time.MASTER

SELECTOR = re.compile(r"\b((?:jqmaster|process)_\w+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)\s*(=~|=)\s*"([^"]*)"')
# Prometheus adds them when it scrapes, and variables of dashboards are for them. Samples have a namespace only where
# there are several (tests/app/test_namespace_metrics.py); without one, a selector for all namespaces finds them, too.
ADDED = {"job", "instance", "namespace"}
# They have a sample only while something is wrong, with TLS, a bound of memory, or several namespaces.
RARE = {
    "jqmaster_faults", "jqmaster_duty_faults", "jqmaster_certificate_expiry_timestamp_seconds",
    "jqmaster_store_memory_max_bytes", "jqmaster_store_failures_total", "jqmaster_target_requests_total",
    "jqmaster_target_request_seconds_bucket", "jqmaster_namespace_up",
}  # fmt: skip


async def test_a_live_master_has_what_rules_and_dashboards_ask_for(api: Api) -> None:
    limit = {"matcher": {"field": "name", "op": "eq", "value": "work"}, "concurrency": 3}
    assert (await api.call("PUT", "/api/constraints/limit", limit))[0] == 201
    async with worker_at(api) as worker:
        for kind in ("success", "failure"):
            await api.enqueue("work", max_retry=0)
            await worker.end(await worker.next_job(), kind)
        await api.enqueue("work")
        await worker.next_job()
        await api.enqueue("elsewhere")

        async def complete() -> dict[str, list[dict[str, str]]] | None:
            text = (await api.http.get("/metrics")).text
            found: dict[str, list[dict[str, str]]] = {}
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    found.setdefault(sample.name, []).append(sample.labels)
            is_whole = {
                "jqmaster_constraint_running",
                "jqmaster_oldest_startable_wait_seconds",
            } <= found.keys()
            return found if is_whole else None

        samples: dict[str, list[dict[str, str]]] = await wait_until(complete)
    asked: set[str] = set()
    for query in queries():
        asked |= named(query)
        for metric, inside in SELECTOR.findall(query):
            if metric in RARE:
                continue
            for label, _, pattern in MATCHER.findall(inside):
                if label in ADDED:
                    continue
                values = {labels[label] for labels in samples[metric] if label in labels}
                assert values, f"{metric} has no label {label}: {query}"
                if "$" not in pattern and label in ("le", "outcome", "state"):
                    of_it = _values(metric, label, values)
                    assert all(one in of_it for one in pattern.split("|")), (query, sorted(of_it))
    assert asked - RARE <= samples.keys()
    assert len(asked) > len(METRICS) / 2


async def test_a_master_serves_its_runbooks(api: Api) -> None:
    answer = await api.http.get("/runbooks.html")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert all(f'<h2 id="{section.slug}">' in answer.text for section in sections())


def _values(metric: str, label: str, found: set[str]) -> set[str]:
    """Return the values of the label; the workers' states have samples only while a worker is in them."""
    others: dict[tuple[str, str], set[str]] = {("jqmaster_workers", "state"): {"fresh", "stale"}}
    return found | others.get((metric, label), set())


def test_the_check_finds_a_misspelt_label() -> None:
    [(metric, inside)] = SELECTOR.findall('sum(rate(jqmaster_jobs_ended_total{outcom="failed"}[5m]))')
    found: list[Any] = MATCHER.findall(inside)
    assert (metric, found) == ("jqmaster_jobs_ended_total", [("outcom", "=", "failed")])
