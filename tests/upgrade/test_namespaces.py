"""Release 0.3, which knows no namespaces, before and after an installation has some."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support import real_time
from tests.support.master import Api, assert_sound
from tests.support.processes import MasterProcess, WorkerProcess, running
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.upgrade.former import FormerMaster

pytestmark = [
    pytest.mark.req("M12", "D29"), pytest.mark.system, pytest.mark.timeout(180), real_time.PROCESSES
]  # fmt: skip


async def test_an_installation_with_namespaces_goes_back_to_0_3_and_up_again(
    store_server: StoreServer, tmp_path: Path, last_release: Path
) -> None:
    shard = f"u{uuid4().hex[:10]}"
    tag = f"{shard}-shop"
    for name in ("former", "this"):
        (tmp_path / name).mkdir()
    former = FormerMaster(last_release, tmp_path / "former", store_server.url, shard=shard, node_id="a")
    this = MasterProcess(tmp_path / "this", store_server.url, shard=shard, node_id="b")
    own, old = Api(this.url), Api(former.url)
    shop = Api(f"{this.url}/ns/shop")
    try:
        with running(former):
            before = await old.enqueue("echo", "before")
            with running(this):
                # While a master lives that would not serve it, no namespace is created.
                status, problem = await own.call("PUT", "/api/namespaces/shop", {"tag": tag})
                assert (status, problem["code"]) == (409, "masters_too_old")
                await asyncio.to_thread(former.terminate)

                async def is_created() -> Any:
                    return (await own.call("PUT", "/api/namespaces/shop", {"tag": tag}))[0] == 201

                await wait_until(is_created, timeout_s=30, what="the former master is no longer alive")
                await _until_served(shop)
                there = await shop.enqueue("echo", "there", keep_result=True)
                here = await own.enqueue("echo", "here")
                # As growth.md says, close the namespaces before going back.
                assert (await own.call("POST", "/api/namespaces/shop/close"))[0] in (200, 202)
            await asyncio.to_thread(former.start)
            with running(WorkerProcess(tmp_path / "former", former.url, pull=True)):
                for job_id in (before, here):
                    await old.until_state(job_id, "succeeded", timeout_s=30)
            assert (await old.http.get("/ns/shop/api/jobs")).status_code == 404
            await asyncio.to_thread(former.terminate)
            with running(this):
                _, listed = await own.call("GET", "/api/namespaces")
                states = {one["name"]: one["state"] for one in listed["namespaces"]}
                assert states == {"default": "open", "shop": "closed"}
                assert (await own.call("POST", "/api/namespaces/shop/open"))[0] in (200, 202)
                await _until_served(shop)
                assert (await shop.call("GET", f"/api/jobs/{there}"))[1]["state"] == "ready"
                with running(WorkerProcess(tmp_path / "this", f"{this.url}/ns/shop", pull=True)):
                    await shop.until_state(there, "succeeded", timeout_s=30)
    finally:
        for api in (own, old, shop):
            await api.http.aclose()
    await assert_sound(store_server.url, tag, then_forget=True)
    await assert_sound(store_server.url, shard)


async def _until_served(api: Api) -> None:
    async def is_served() -> bool:
        try:
            return (await api.call("GET", "/readyz"))[0] == 200
        except httpx.TransportError:
            return False

    await wait_until(is_served, timeout_s=30, what="the namespace is served")
