"""A master starts while the store of the default namespace is away, and serves the namespaces of other stores."""

import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.app import Master, running_master
from jqmaster.config import Settings
from jqmaster.errors import StoreUnavailableError
from jqmaster.store.keys import Keys
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import real_time
from tests.support.admin import forget_keys
from tests.support.master import QUICK, Api, GivenSettings, assert_sound
from tests.support.namespaces import Installation
from tests.support.server import StoreServer, started
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D29"), real_time.MASTER]
CONFIGURED = "configured-token-of-this-test"


@pytest.fixture
def home() -> Iterator[StoreServer]:
    """The store of the default namespace, which a test may stop."""
    server = StoreServer()
    with started(server):
        yield server


def settings_of(home: StoreServer, other: StoreServer, directory: Path, **settings: Any) -> Settings:
    return GivenSettings(
        **{
            **QUICK,
            "redis_url": home.url,
            "shard": f"m{uuid.uuid4().hex[:10]}",
            "stores": {"b": {"redis_url": other.url}},
            "data_dir": directory,
            "store_timeout_s": 1.0,
            **settings,
        }
    )


class Callers:
    """Clients of a master, each for one namespace and with one token."""

    def __init__(self, master: Master) -> None:
        self._url = master.server.url
        self._apis: dict[tuple[str, str | None], Api] = {}

    def __call__(self, namespace: str = "", token: str | None = None) -> Api:
        key = namespace, token
        if key not in self._apis:
            self._apis[key] = Api(f"{self._url}/ns/{namespace}" if namespace else self._url, token)
        return self._apis[key]

    async def close(self) -> None:
        for api in self._apis.values():
            await api.http.aclose()


@contextlib.asynccontextmanager
async def started_master(settings: Settings) -> AsyncIterator[tuple[Master, Callers]]:
    async with running_master(settings) as master:
        callers = Callers(master)
        try:
            yield master, callers
        finally:
            await callers.close()


async def with_namespaces(settings: Settings) -> str:
    """Run a master once, and create `shop` in the default store and `mail` in the other one. Return a token of
    `mail`."""
    async with running_master(settings) as master:
        installation = Installation(master, CONFIGURED)
        await installation.put("shop")
        await installation.put("mail", "b")
        await installation.until_served("shop", "mail")
        status, made = await installation.api("mail").call(
            "POST", "/api/tokens", {"label": "app", "scopes": ["push", "read"]}
        )
        assert status == 201, made
        for api in installation.apis:
            await api.http.aclose()
    return str(made["token"])


async def test_namespaces_of_other_stores_are_served_and_the_default_one_when_its_store_comes(
    home: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    settings = settings_of(home, other, tmp_path, tokens=[f"admin:{CONFIGURED}"])
    token = await with_namespaces(settings)
    home.kill()
    async with started_master(settings) as (master, api):

        async def is_served() -> bool:
            return bool((await api("mail", CONFIGURED).call("GET", "/readyz"))[1].get("leader"))

        await wait_until(is_served, what="the namespace in the other store is served")
        for shown in (token, CONFIGURED):
            assert (await api("mail", shown).call("POST", "/api/jobs", {"name": "work"}))[0] == 201
        # It is not known which tokens there are, so nobody is let in without one.
        assert (await api("mail").call("POST", "/api/jobs", {"name": "work"}))[0] == 401
        assert (await api().call("GET", "/healthz"))[1] == {"status": "ok", "id": master.id}
        status, ready = await api().call("GET", "/readyz")
        assert (status, ready["status"], len(ready["duty_faults"])) == (200, "ready", 1)
        for namespace in ("", "default", "shop"):
            status, answer = await api(namespace, CONFIGURED).call("GET", "/api/jobs")
            assert (status, answer["code"]) == (503, "store_unavailable"), namespace
        assert (await api("default", CONFIGURED).call("GET", "/readyz"))[0] == 503
        assert (await api("", CONFIGURED).http.get("/ns/nobody/api/jobs")).status_code == 404

        home.start()
        for namespace in ("", "shop"):

            async def takes_jobs(namespace: str = namespace) -> bool:
                answer = await api(namespace, CONFIGURED).call("POST", "/api/jobs", {"name": "work"})
                return answer[0] == 201

            await wait_until(takes_jobs, what=f"{namespace or 'the default namespace'} is served")
        names = (await api("", CONFIGURED).call("GET", "/api/namespaces"))[1]["namespaces"]
        assert {one["name"] for one in names} == {"default", "shop", "mail"}
        await wait_until(lambda: master.registry.is_confirmed, what="the registry is read")
        assert master.failure is None
    await assert_sound(home.url, settings.shard)


async def test_a_process_that_serves_another_namespace_stays_ready_while_the_default_store_is_away(
    home: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with started_master(settings_of(home, other, tmp_path)) as (master, api):
        installation = Installation(master, None)
        await installation.put("mail", "b")
        await installation.until_served("mail")
        home.kill()

        async def is_told() -> Any:
            status, ready = await api("default").call("GET", "/readyz")
            return ready["faults"] if status == 503 else None

        assert "store" in (await wait_until(is_told, what="the store is away"))[0]
        status, ready = await api().call("GET", "/readyz")
        assert (status, ready["status"], ready["faults"]) == (200, "ready", [])
        assert any(fault.startswith("default: store") for fault in ready["duty_faults"])
        other.kill()

        async def is_unready() -> bool:
            return (await api().call("GET", "/readyz"))[0] == 503

        await wait_until(is_unready, what="the process serves nothing")
        for one in installation.apis:
            await one.http.aclose()


async def test_without_another_namespace_a_master_does_not_start_without_its_store(
    home: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    settings = settings_of(home, other, tmp_path)
    async with running_master(settings) as master:
        installation = Installation(master, None)
        await installation.put("shop")
        await installation.until_served("shop")
        for one in installation.apis:
            await one.http.aclose()
    home.kill()
    with pytest.raises(StoreUnavailableError):
        async with running_master(settings):
            pass


async def test_a_copy_of_the_registry_that_is_old_begins_no_data_where_a_namespace_was_before_its_move(
    home: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    settings = settings_of(home, other, tmp_path, tokens=[f"admin:{CONFIGURED}"])
    await with_namespaces(settings)
    # The namespace was moved away while this master was down, and its former data were removed a day later.
    place = Keys(f"{settings.shard}-mail")
    client = StoreClient(other.url, connections=2)
    await forget_keys(Shard(client, place))
    home.kill()
    try:
        async with started_master(settings) as (_, api):

            async def is_told() -> Any:
                status, answer = await api("mail", CONFIGURED).call("GET", "/api/jobs")
                return answer if status == 503 and answer["code"] == "store_unavailable" else None

            assert "the registry of namespaces" in (await wait_until(is_told, what="it is refused"))["detail"]
            refused = await api("mail", CONFIGURED).call("POST", "/api/jobs", {"name": "work"})
            assert refused[0] == 503
            assert await client.command("EXISTS", place.generation) == 0
            home.start()
            # The registry, which answers again, says that it is here.

            async def takes_jobs() -> bool:
                answer = await api("mail", CONFIGURED).call("POST", "/api/jobs", {"name": "work"})
                return answer[0] == 201

            await wait_until(takes_jobs, what="the namespace is served")
    finally:
        await client.close()
