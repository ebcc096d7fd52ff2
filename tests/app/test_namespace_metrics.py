"""`/metrics` of an installation with several namespaces: each sample names its namespace, and a store that hangs takes
only its own namespaces' gauges away."""

import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jqmaster.app import running_master
from jqmaster.service.operations.metric_catalog import METRICS
from tests.api.operations.test_metrics import Samples, scraped, value
from tests.support import real_time
from tests.support.master import Api
from tests.support.namespaces import Installation, installed
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]
NAMES = ("default", "shop", "mail")


@pytest.fixture
async def installation(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> AsyncIterator[Installation]:
    async with installed(store_server, other, tmp_path) as one:
        await one.put("shop")
        await one.put("mail", "b")
        await one.until_served("shop", "mail")
        yield one


def ready(samples: Samples, namespace: str) -> float | None:
    return value(samples, "jqmaster_ready_jobs", name="work", namespace=namespace)


async def test_each_sample_names_its_namespace(installation: Installation) -> None:
    for count, name in enumerate(NAMES, start=1):
        for _ in range(count):
            await installation.api(name).enqueue("work")

    async def complete() -> Samples | None:
        samples = await scraped(installation.api())
        return samples if ready(samples, "mail") == 3 and ready(samples, "shop") == 2 else None

    samples = await wait_until(complete, what="all namespaces are counted")
    for count, name in enumerate(NAMES, start=1):
        assert ready(samples, name) == count
        assert value(samples, "jqmaster_jobs_pushed_total", name="work", namespace=name) == count
        for metric in ("jqmaster_namespace_up", "jqmaster_store_up", "jqmaster_is_leader"):
            assert value(samples, metric, namespace=name) == 1
    by_length = sorted((info for info in METRICS.values()), key=lambda one: -len(one.name))
    for metric, labels in samples:
        if metric.startswith("jqmaster_"):
            info = next(one for one in by_length if metric.startswith(one.name))
            assert ("namespace" in dict(labels)) == info.is_by_namespace, metric
    alone = await scraped(installation.api("shop"))
    assert value(alone, "jqmaster_ready_jobs", name="work") == 2
    assert not any("namespace" in dict(labels) for _, labels in alone)


async def test_one_of_two_masters_reports_what_is_in_the_store_of_a_namespace(
    installation: Installation, other: StoreServer
) -> None:
    for name in ("shop", "mail"):
        await installation.api(name).enqueue("work")
    async with running_master(installation.master.settings) as second:
        apis = [installation.api(), Api(second.server.url)]
        try:

            async def scrapes() -> list[Samples] | None:
                both = [await scraped(api) for api in apis]
                up = [value(one, "jqmaster_namespace_up", namespace=name) for one in both for name in NAMES]
                leads = [
                    sum(value(one, "jqmaster_is_leader", namespace=name) or 0 for one in both)
                    for name in NAMES
                ]
                counted = [ready(one, name) for one in both for name in ("shop", "mail")]
                is_right = up == [1] * 6 and leads == [1] * 3 and sorted(filter(None, counted)) == [1, 1]
                return both if is_right else None

            both = await wait_until(scrapes, timeout_s=40, what="both masters serve all namespaces")
        finally:
            await apis[1].http.aclose()
    for name in NAMES:
        led = [value(one, "jqmaster_is_leader", namespace=name) for one in both]
        told = [value(one, "jqmaster_leader_epoch", namespace=name) for one in both]
        # None for the master that does not lead.
        assert [one is not None for one in told] == [one == 1 for one in led]


async def test_a_token_gets_the_namespaces_that_it_may_read(installation: Installation) -> None:
    admin = installation.api()
    made = await admin.call("POST", "/api/tokens", {"label": "a", "scopes": ["admin"]})
    admin = installation.api(None, made[1]["token"])
    bound = {"label": "b", "scopes": ["read"], "namespaces": ["default", "shop"]}
    status, created = await admin.call("POST", "/api/tokens", bound)
    assert status == 201
    api = installation.api(None, created["token"])

    async def known() -> Samples | None:
        status, _ = await api.call("GET", "/api/stats")
        return await scraped(api) if status == 200 else None

    samples = await wait_until(known, what="the token is known")
    seen = {dict(labels).get("namespace") for _, labels in samples} - {None}
    assert seen == {"default", "shop"}
    every = {dict(labels).get("namespace") for _, labels in await scraped(admin)} - {None}
    assert every == set(NAMES)


async def test_a_store_that_hangs_takes_only_its_own_gauges_away(
    installation: Installation, other: StoreServer
) -> None:
    for name in ("shop", "mail"):
        await installation.api(name).enqueue("work")
    other.signal(signal.SIGSTOP)
    try:

        async def told() -> Samples | None:
            began_s = time.monotonic()
            samples = await scraped(installation.api())
            assert time.monotonic() - began_s < 8
            is_down = value(samples, "jqmaster_namespace_up", namespace="mail") == 0
            return samples if is_down and ready(samples, "shop") == 1 else None

        samples = await wait_until(told, what="mail is down")
        assert value(samples, "jqmaster_namespace_up", namespace="shop") == 1
        assert value(samples, "jqmaster_jobs_pushed_total", name="work", namespace="mail") == 1
        assert ready(samples, "mail") is None
    finally:
        other.signal(signal.SIGCONT)
    await installation.until_served("mail")
