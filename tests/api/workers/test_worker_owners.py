"""A worker belongs to the token that registered it, and a token may be bound to names."""

import contextlib
import hashlib
import hmac
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jqmaster.app import running_master
from jqmaster.service.workers import owners as worker_owners
from tests.api.identity.test_sessions import ADMIN_TOKEN, follower, guarded
from tests.support import real_time
from tests.support.admin import admin_of
from tests.support.master import Api
from tests.support.scripted_worker import ScriptedWorker, ending, worker_at
from tests.support.server import StoreServer

pytestmark = [pytest.mark.rule("E1.3"), real_time.MASTER]


async def token_of(admin: Api, **fields: Any) -> dict[str, Any]:
    status, made = await admin.call("POST", "/api/tokens", {"label": "workers", "scopes": ["work"], **fields})
    assert status == 201, made
    found: dict[str, Any] = made
    return found


@contextlib.asynccontextmanager
async def apis(url: str, *tokens: str) -> AsyncIterator[list[Api]]:
    async with contextlib.AsyncExitStack() as stack:
        made = [Api(url, token) for token in tokens]
        for api in made:
            stack.push_async_callback(api.http.aclose)
        yield made


def proof_of(worker: ScriptedWorker, token: str) -> str:
    text = f"adopt\n{worker.id}\n{hashlib.sha256(token.encode()).hexdigest()}"
    return hmac.digest(worker.secret.encode(), text.encode(), "sha256").hex()


def calls_of(worker: ScriptedWorker, job: dict[str, Any]) -> list[tuple[str, str, Any]]:
    path = f"/api/workers/{worker.id}"
    claim = {"job_id": job["job_id"], "token": job["token"]}
    return [
        ("POST", f"{path}/heartbeat", {"running": [], "free": 1}),
        ("POST", f"{path}/start", {"starts": [claim]}),
        ("POST", f"{path}/results", {"results": [ending(job)]}),
        ("POST", f"{path}/claim", {"max": 1, "wait": 0}),
        ("DELETE", path, None),
    ]


async def test_no_other_token_speaks_for_a_worker(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin):
        own, other = (await token_of(admin))["token"], (await token_of(admin))["token"]
        async with (
            apis(master.server.url, own, other) as (mine, theirs),
            running_master(follower(store_server.url, master.settings.shard)) as second,
            apis(second.server.url, other, ADMIN_TOKEN) as (theirs_there, admin_there),
            worker_at(mine) as worker,
        ):
            job_id = await admin.enqueue("work")
            job = await worker.next_job()
            for caller in (theirs, theirs_there, admin, admin_there):
                for method, path, body in calls_of(worker, job):
                    status, problem = await caller.call(method, path, body)
                    assert (status, problem["code"]) == (403, "foreign_worker"), (method, path)
            assert await admin.state(job_id) == "running"
            # People may still give it orders.
            assert (await admin.call("POST", f"/api/workers/{worker.id}/drain"))[0] == 200
            await worker.end(job)
            assert await admin.state(job_id) == "succeeded"


@pytest.mark.req("D18")
async def test_a_running_worker_goes_on_with_another_token_by_proof_of_its_secret(
    store_server: StoreServer,
) -> None:
    patient = {"lease_ms": 30_000, "heartbeat_interval_s": 1.0, "worker_stale_s": 30.0}
    async with guarded(store_server.url, **patient) as (master, admin):
        made = await token_of(admin)
        async with apis(master.server.url, made["token"]) as (old,), worker_at(old) as worker:
            job_id = await admin.enqueue("work")
            job = await worker.next_job()
            worker.is_silent = True
            other = await token_of(admin)
            assert (await admin.call("DELETE", f"/api/tokens/{made['id']}"))[0] == 204
            assert (await worker.beat())[0] == 401
            async with apis(master.server.url, other["token"]) as (new,):
                worker.api = new
                for proof in (None, "0" * 64, proof_of(worker, made["token"])):
                    fields = {} if proof is None else {"proof": proof}
                    status, problem = await worker.beat(**fields)
                    assert (status, problem["code"]) == (403, "foreign_worker")
                status, answer = await worker.beat(proof=proof_of(worker, other["token"]))
                assert (status, answer["lost"]) == (200, []), answer
                assert (await worker.beat())[0] == 200
                worker.is_silent = False
                await worker.end(job)
                assert (await admin.job(job_id))["attempt"] == 1
                assert await admin.state(job_id) == "succeeded"


@pytest.mark.rule("E1.2")
async def test_a_rotated_token_has_the_workers_and_keys_of_the_one_before(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin):
        made = await token_of(admin, scopes=["push", "work"])
        async with apis(master.server.url, made["token"]) as (old,), worker_at(old) as worker:
            once = {"Idempotency-Key": "order-7"}
            status, first = await old.call("POST", "/api/jobs", {"name": "work"}, **once)
            assert status == 201
            job = await worker.next_job()
            token = made
            for _ in range(2):
                status, token = await admin.call(
                    "POST", f"/api/tokens/{token['id']}/rotate", {"overlap_s": 60}
                )
                assert status == 201
            async with apis(master.server.url, token["token"]) as (new,):
                assert await new.call("POST", "/api/jobs", {"name": "work"}, **once) == (200, first)
                # The old and the new token are both valid.
                for api in (new, old, new):
                    worker.api = api
                    assert (await worker.beat())[0] == 200
                # It may still beat when the client of the new token is closed.
                worker.api = old
                await worker.end(job)
                status, session = await new.call("POST", "/api/session", {"token": token["token"]})
                assert (status, session["who"]) == (201, f"token:{token['id']}")


@pytest.mark.rule("E1.3")
async def test_an_idempotency_key_is_of_its_token_alone(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin):
        mine = await token_of(admin, scopes=["push"], names=["mine.*"])
        async with apis(master.server.url, mine["token"]) as (api,):
            once = {"Idempotency-Key": "order-7"}
            status, theirs = await admin.call("POST", "/api/jobs", {"name": "bank.pay"}, **once)
            assert status == 201
            status, own = await api.call("POST", "/api/jobs", {"name": "mine.a"}, **once)
            assert status == 201
            assert own != theirs
            assert await admin.call("POST", "/api/jobs", {"name": "bank.pay"}, **once) == (200, theirs)
            # A caller that chooses the ID of somebody else's job learns only that the ID is taken.
            status, problem = await api.call("POST", "/api/jobs", {"name": "mine.a", "id": theirs["id"]})
            assert (status, problem["code"]) == (409, "id_taken")
            assert problem["detail"] == f"the ID {theirs['id']} is taken"


async def test_a_challenge_never_makes_a_proof(store_server: StoreServer) -> None:
    """Anybody may make a worker sign a nonce with the same secret."""
    text = worker_owners.adoption_proof("s" * 32, "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e", b"token")
    assert len(text) == 64
    from worker_sdk.transport.signature import SignatureCheck

    check = SignatureCheck(["s" * 32])
    digest = hashlib.sha256(b"token").hexdigest()
    assert check.prove(f"adopt\n0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e\n{digest}") is None


@pytest.mark.parametrize("former", ["", "local"])
async def test_a_worker_from_before_there_were_owners_or_tokens_belongs_to_the_first_that_beats_for_it(
    store_server: StoreServer, former: str
) -> None:
    async with guarded(store_server.url) as (master, admin):
        own, other = (await token_of(admin))["token"], (await token_of(admin))["token"]
        async with (
            apis(master.server.url, own, other) as (mine, theirs),
            ScriptedWorker(mine, ("work",), 1).serving() as worker,
        ):
            worker.is_silent = True
            worker.id = (await worker.register())[1]["worker_id"]
            shard = master.shard.services.link
            redis, key = admin_of(shard.client), shard.keys.worker(worker.id)
            await redis.hdel(key, "owner")
            if former:
                await redis.hset(key, "owner", former)
            nothing = {"starts": [{"job_id": worker.id, "token": "0" * 32}]}
            path = f"/api/workers/{worker.id}"
            assert (await theirs.call("POST", f"{path}/start", nothing))[0] == 200
            assert (await worker.beat())[0] == 200
            assert (await theirs.call("POST", f"{path}/start", nothing))[1]["code"] == "foreign_worker"


async def test_the_memory_of_owners_is_bounded(
    store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_owners, "MAX_KNOWN", 1)
    async with guarded(store_server.url) as (master, admin):
        own, other = (await token_of(admin))["token"], (await token_of(admin))["token"]
        async with (
            apis(master.server.url, own, other) as (mine, theirs),
            worker_at(mine) as one,
            worker_at(mine) as two,
        ):
            for worker in (one, two, one):
                assert (await worker.beat())[0] == 200
                status, _ = await theirs.call("DELETE", f"/api/workers/{worker.id}")
                assert status == 403


async def test_a_token_that_is_bound_to_names_makes_workers_of_those_alone(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin):
        made = await token_of(admin, names=["mail.*"])
        both = await token_of(admin, names=["mail.*"], scopes=["push", "work"])
        free = await token_of(admin)
        status, _ = await admin.call(
            "POST", "/api/tokens", {"label": "x", "scopes": ["work", "read"], "names": ["a"]}
        )
        assert status == 422
        async with apis(master.server.url, made["token"], both["token"], free["token"]) as (
            bound,
            pusher,
            any_,
        ):
            for api in (bound, pusher):
                async with ScriptedWorker(api, ("mail.send", "bank.pay"), 1).serving() as worker:
                    status, problem = await worker.register()
                    assert (status, problem["code"]) == (403, "name_forbidden")
                    assert [error["loc"] for error in problem["errors"]] == [["names", 1]]
                    worker.names = ("mail.send",)
                    assert (await worker.register())[0] == 201
            assert (await pusher.call("POST", "/api/jobs", {"name": "bank.pay"}))[1][
                "code"
            ] == "name_forbidden"
            # A bound token also cannot take over a worker of other names.
            async with worker_at(any_, "bank.pay") as worker:
                worker.api = bound
                status, problem = await worker.beat(proof=proof_of(worker, made["token"]))
                assert (status, problem["code"]) == (403, "name_forbidden")
                worker.api = any_
