"""A real in-process master on its own shard of the real store, reached over real HTTP."""

import contextlib
import ssl
import uuid
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Final, cast

import httpx
import msgpack
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource
from starlette.routing import Router

from jqmaster.api.app import build_app
from jqmaster.api.http.auth import AccessPolicy, Credentials, Sessions
from jqmaster.api.services import Services
from jqmaster.app import Master, running_master
from jqmaster.config import Settings
from jqmaster.domain.operations.latency import Traffic
from jqmaster.live_value import LiveValue
from jqmaster.shared_bound import SharedBound
from jqmaster.store.health import fsck
from jqmaster.store.keys import Keys
from jqmaster.store.link.access import StoreAccess
from jqmaster.store.link.client import StoreClient
from jqmaster.store.link.shard import Shard
from tests.support import plain_http
from tests.support.admin import forget_keys
from tests.support.contract import check_answer
from tests.support.waiting import wait_until

# Shorter times for the same code: a lost worker is found within two seconds.
QUICK: dict[str, Any] = {
    "lease_ms": 1500,
    "offer_ms": 500,
    "heartbeat_interval_s": 0.2,
    "worker_stale_s": 1.0,
    "timeout_grace_s": 0.5,
    "leader_ttl_s": 1.0,
    "push_timeout_s": 1.0,
    "target_grace_s": 0.5,
    "port": 0,
}

# For tests that do not lose workers: a machine that stands still for seconds does not cost a job its attempt.
PATIENT: dict[str, Any] = {
    "lease_ms": 60_000,
    "offer_ms": 30_000,
    "worker_stale_s": 60.0,
    "leader_ttl_s": 10.0,
    "push_timeout_s": 30.0,
}

MSGPACK = {"Content-Type": "application/msgpack"}
ACCEPT = {"Accept": "application/msgpack"}


# Reading the system's certificates takes longer than most tests.
NO_TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TIMEOUT_S: Final = 70
OF_EVERY_CLIENT: Final = frozenset(httpx.Client().headers)
# A failed test must not leave a connection behind, which would fail another test when collected.
NO_IDLE_CONNECTIONS: Final = httpx.Limits(max_keepalive_connections=0)


class Api:
    """A pusher and operator in a test: MessagePack in, (status, value) out. Each answer is checked against the
    contract."""

    def __init__(self, base_url: str, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._url = base_url.rstrip("/")
        self.http = self._own_http = httpx.AsyncClient(
            base_url=base_url,
            headers=headers,
            timeout=TIMEOUT_S,
            trust_env=False,
            verify=NO_TLS,
            limits=NO_IDLE_CONNECTIONS,
        )

    async def call(self, method: str, path: str, value: Any = None, **headers: str) -> tuple[int, Any]:
        content = None if value is None else msgpack.packb(value, datetime=True)
        headers = {**ACCEPT, **(MSGPACK if content is not None else {}), **headers}
        response = await self._request(method, path, content, headers)
        answer = msgpack.unpackb(response.content, timestamp=3) if response.content else None
        check_answer(method, path, response.status_code, response.headers, answer)
        return response.status_code, answer

    async def _request(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str]
    ) -> httpx.Response:
        http = self.http
        # A client with certificates, cookies or a transport of its own.
        if http is not self._own_http or http.cookies or not self._url.startswith("http://"):
            return await http.request(method, path, content=content, headers=headers)
        own = {name: text for name, text in http.headers.items() if name not in OF_EVERY_CLIENT}
        response = await plain_http.exchange(
            method, httpx.URL(self._url + path), {**own, **headers}, content, timeout_s=TIMEOUT_S
        )
        if "set-cookie" in response.headers:
            response.request = http.build_request(method, path)
            http.cookies.extract_cookies(response)
        return response

    async def enqueue(self, name: str, argument: Any = None, **fields: Any) -> str:
        status, answer = await self.call("POST", "/api/jobs", {"name": name, "argument": argument, **fields})
        assert status == 201, answer
        return answer["id"]

    async def job(self, job_id: str) -> dict[str, Any]:
        status, job = await self.call("GET", f"/api/jobs/{job_id}")
        assert status == 200, job
        return job

    async def state(self, job_id: str) -> str:
        return (await self.job(job_id))["state"]

    async def counts(self) -> dict[str, int]:
        return (await self.call("GET", "/api/jobs?limit=1"))[1]["counts"]

    async def until_state(self, job_id: str, *states: str, timeout_s: float = 15) -> dict[str, Any]:
        async def reached() -> dict[str, Any] | None:
            job = await self.job(job_id)
            return job if job["state"] in states else None

        return await wait_until(reached, timeout_s=timeout_s, what=f"job {job_id} in {states}")


def app_alone(
    *tokens: str, credentials: Credentials | None = None, sessions: Sessions | None = None
) -> Router:
    """Return the application without services: a caller that is not let in never reaches one."""
    settings = Settings()
    live = SimpleNamespace(current=settings, derive=lambda make: LiveValue(make(settings)))
    services = cast(
        Services,
        SimpleNamespace(
            settings=settings,
            live=live,
            contract=dict,
            traffic=Traffic(),
            store_id="0" * 32,
            prefix="",
            calls=SharedBound(LiveValue(100)).portion(),
        ),
    )
    return build_app(services, AccessPolicy(tokens, credentials=credentials, sessions=sessions))


class GivenSettings(Settings):
    """Settings from arguments alone. To look for each of them in the environment takes a sixth of a master's start."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


@contextlib.asynccontextmanager
async def master_on(store_url: str, **overrides: Any) -> AsyncIterator[tuple[Master, Api]]:
    """Yield a leading master and a client. Finally check with fsck that the structures agree, whatever the test did."""
    named = overrides.pop("shard", None)
    shard = named or f"m{uuid.uuid4().hex[:10]}"
    settings = GivenSettings(**{**QUICK, "redis_url": store_url, "shard": shard, **overrides})
    async with running_master(settings) as master:
        api = Api(master.server.url)
        await wait_until(lambda: master.shard.leader.leadership, what="the master leads")
        try:
            yield master, api
        finally:
            await api.http.aclose()
    # A test that names a shard may start another master on it.
    await assert_sound(store_url, shard, StoreAccess.of(settings), then_forget=not named)


async def forget(store_url: str, shard: str, access: StoreAccess | None = None) -> None:
    """Remove the keys, because later tests read all keys of the server and leftovers would slow each of them down."""
    client = StoreClient(store_url, connections=2, access=access)
    try:
        await forget_keys(Shard.bound(client, Keys(shard)))
    finally:
        await client.close()


async def assert_sound(
    store_url: str, shard: str, access: StoreAccess | None = None, *, then_forget: bool = False
) -> None:
    """Assert that fsck finds nothing. A busy store may take its time, which this does not test. With `then_forget`,
    remove the keys as `forget` does."""
    client = StoreClient(store_url, timeout_s=60.0, connections=2, access=access)
    try:
        assert [finding async for finding in fsck.check(client, Keys(shard))] == []
        if then_forget:
            await forget_keys(Shard.bound(client, Keys(shard)))
    finally:
        await client.close()
