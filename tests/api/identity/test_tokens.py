"""Tokens that are kept in the store: what they open, for how long, and on which masters."""

from typing import Any

import pytest
from pydantic import ValidationError

from jqmaster.api.identity.schemas import TokenRequest
from jqmaster.app import running_master
from jqmaster.clock import SystemClock
from jqmaster.domain.identity.access import ConfiguredTokens, Principal, Scope, make_token, token_id_of
from jqmaster.domain.ids import new_id
from jqmaster.errors import StoreUnavailableError
from jqmaster.live_value import LiveValue
from jqmaster.service.identity.directory import TRUSTED_S
from jqmaster.service.identity.identity import Identity
from jqmaster.service.identity.sessions import LoginPolicy
from tests.api.identity.test_sessions import follower, guarded
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = real_time.MASTER


async def create(admin: Api, *scopes: str, **fields: Any) -> dict[str, Any]:
    status, made = await admin.call(
        "POST", "/api/tokens", {"label": "shop", "scopes": list(scopes), **fields}
    )
    assert status == 201, made
    return made


@pytest.mark.rule("E1.2")
def test_a_token_says_what_it_is_and_whether_it_was_copied_whole() -> None:
    made = {make_token({Scope.PUSH, Scope.WORK}) for _ in range(100)}
    assert len({token.text for token in made}) == 100
    for token in made:
        start, scopes, token_id, secret = token.text.split("_")
        assert (start, scopes, token_id) == ("jqm", "push-work", token.id)
        assert (len(secret) - 8) * 4 >= 160
        assert token_id_of(token.text) == token.id
        wrong = ("0" if token.text[-20] != "0" else "1").join((token.text[:-20], token.text[-19:]))
        for text in (wrong, token.text[:-1], token.text + "0", token.text.upper(), "", "jqm_push_0_0"):
            assert token_id_of(text) is None


async def test_jobs_and_batches_are_cancelled_by_operators_and_by_pushers_within_their_names(
    store_server: StoreServer,
) -> None:
    async with guarded(store_server.url) as (master, admin):
        tokens = {
            scope: Api(master.server.url, (await create(admin, scope))["token"])
            for scope in ("operate", "push", "read", "work")
        }
        bound = Api(master.server.url, (await create(admin, "push", names=["mine.*"]))["token"])

        async def cancel(api: Api, name: str) -> int:
            job_id = await admin.enqueue(name, delay=600)
            return (await api.call("POST", f"/api/jobs/{job_id}/cancel"))[0]

        assert {scope: await cancel(api, "theirs.a") for scope, api in tokens.items()} == {
            "operate": 200, "push": 200, "read": 403, "work": 403,
        }  # fmt: skip
        assert [await cancel(bound, name) for name in ("mine.a", "theirs.a")] == [200, 404]
        for scope, status in (("operate", 202), ("read", 403)):
            batch = (await admin.call("POST", "/api/batches", {"description": scope}))[1]["id"]
            assert (await tokens[scope].call("POST", f"/api/batches/{batch}/cancel"))[0] == status


@pytest.mark.req("D18")
@pytest.mark.rule("E1.2", "E6.4")
@pytest.mark.row(67)
async def test_a_token_is_made_used_replaced_and_revoked(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin):
        shard = master.settings.shard
        async with running_master(follower(store_server.url, shard)) as second:
            made = await create(admin, "push", ttl_s=3600)
            assert made["created_by"]
            assert made["expires_at"]
            here, there = (Api(one.server.url, made["token"]) for one in (master, second))
            await wait_until(lambda: opens(there), what="the other master knows the token")
            assert await opens(here)
            assert (await here.call("GET", "/api/jobs"))[0] == 403
            (listed,) = (await admin.call("GET", "/api/tokens"))[1]["tokens"]
            assert listed["last_used_at"]
            assert "token" not in listed
            # The new token works too, and the old one for a while longer.
            status, new = await admin.call("POST", f"/api/tokens/{made['id']}/rotate", {"overlap_s": 600})
            assert status == 201
            assert (new["label"], new["scopes"], new["names"]) == ("shop", ["push"], [])
            renewed = Api(second.server.url, new["token"])
            await wait_until(lambda: opens(renewed), what="the other master knows the new token")
            assert await opens(there)
            assert await opens(here)
            listed = {one["id"]: one for one in (await admin.call("GET", "/api/tokens"))[1]["tokens"]}
            assert [listed[one["id"]]["is_replaced"] for one in (made, new)] == [True, False]
            # The deletion takes effect here at once, and everywhere within 5 s.
            assert (await admin.call("DELETE", f"/api/tokens/{made['id']}"))[0] == 204
            assert not await opens(here)

            async def is_closed() -> bool:
                return not await opens(there)

            await wait_until(is_closed, timeout_s=5, what="the other master refuses the revoked token")
            assert await opens(renewed)
            status, _ = await admin.call("POST", f"/api/tokens/{new['id']}/rotate", {"overlap_s": 0})
            assert status == 201

            async def is_replaced() -> bool:
                return not await opens(renewed)

            await wait_until(is_replaced, timeout_s=5, what="without overlap the old one ends")
            for path in ("/api/tokens/nothing", f"/api/tokens/{made['id']}"):
                assert (await admin.call("DELETE", path))[0] == 404
            actions = [e["action"] for e in (await admin.call("GET", "/api/audit"))[1]["entries"]]
            assert actions == ["token.rotate", "token.revoke", "token.rotate", "token.create"]
            for api in (here, there, renewed):
                await api.http.aclose()


async def opens(api: Api) -> bool:
    status, answer = await api.call("GET", "/api/jobs/0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e/result")
    assert status in (200, 401), answer
    return status == 200


@pytest.mark.rule("E1.2")
async def test_a_token_ends_at_its_time(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin):
        made = await create(admin, "push", ttl_s=1)
        api = Api(master.server.url, made["token"])

        async def is_over() -> bool:
            return not await opens(api)

        await wait_until(is_over, what="the token has ended")
        status, problem = await admin.call("POST", f"/api/tokens/{made['id']}/rotate", {"overlap_s": 1})
        assert (status, problem["code"]) == (409, "token_expired")
        bodies: list[dict[str, Any]] = [
            {"expires_at": "2020-01-01T00:00:00Z"}, {"ttl_s": 1, "expires_at": "2099-01-01T00:00:00Z"}, {"scopes": []},
            {"scopes": ["root"]}, {"label": ""}, {"names": ["a"], "scopes": ["push", "read"]}, {"ttl_s": 0},
        ]  # fmt: skip
        for body in bodies:
            status, _ = await admin.call("POST", "/api/tokens", {"label": "x", "scopes": ["push"], **body})
            assert status == 422, body
        await api.http.aclose()


@pytest.mark.rule("E1.3")
@pytest.mark.row(67)
async def test_a_token_for_some_names_knows_no_other_jobs(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin):
        made = await create(admin, "push", names=["mail.*", "feed"])
        assert made["names"] == ["mail.*", "feed"]
        api = Api(master.server.url, made["token"])
        own = await api.enqueue("mail.send")
        assert await api.enqueue("feed")
        foreign = await admin.enqueue("bank.pay")
        for name in ("bank.pay", "mail", "feeds", "xmail.send"):
            for path, body in (
                ("/api/jobs", {"name": name}),
                ("/api/jobs/bulk", {"jobs": [{"name": "feed"}, {"name": name}]}),
            ):
                status, problem = await api.call("POST", path, body)
                assert (status, problem["code"]) == (403, "name_forbidden"), (name, path)
        assert (await api.call("GET", f"/api/jobs/{own}/result"))[0] == 202
        assert await api.call("GET", f"/api/jobs/{foreign}/result") == (200, None)
        assert (await api.call("POST", f"/api/jobs/{foreign}/cancel"))[1]["code"] == "unknown_job"
        assert (await admin.job(foreign))["state"] == "ready"
        assert (await api.call("POST", f"/api/jobs/{own}/cancel"))[0] == 200
        assert (await admin.counts())["ready"] == 2
        await api.http.aclose()


@pytest.mark.rule("E1.3")
@pytest.mark.req("J18")
async def test_a_token_for_some_names_learns_only_of_those_which_were_never_served(
    store_server: StoreServer,
) -> None:
    async with guarded(store_server.url) as (master, admin):
        made = await create(admin, "push", names=["mail.*"])
        api = Api(master.server.url, made["token"])
        for path, status, body in (
            ("/api/jobs", 201, {"name": "mail.send"}),
            ("/api/jobs", 403, {"name": "bank.pay"}),
            ("/api/jobs/bulk", 403, {"jobs": [{"name": "mail.send"}, {"name": "bank.pay"}]}),
        ):
            answer = await api.http.post(path, json=body)
            assert answer.status_code == status
            assert answer.headers.get("jq-unserved-names") == ("mail.send" if status == 201 else None)
        await api.http.aclose()


@pytest.mark.rule("E1.3")
@pytest.mark.req("P9")
async def test_a_token_for_some_names_learns_nothing_of_other_jobs_by_waiting_for_them(
    store_server: StoreServer,
) -> None:
    async with guarded(store_server.url) as (master, admin):
        made = await create(admin, "push", names=["mail.*"])
        api = Api(master.server.url, made["token"])
        own, foreign, canceled, never = (
            await api.enqueue("mail.send"),
            *[await admin.enqueue("bank.pay") for _ in range(2)],
            new_id(),
        )
        assert (await admin.call("POST", f"/api/jobs/{canceled}/cancel"))[0] == 200

        async def asked(path: str, hidden: str) -> tuple[int, str]:
            job = {"name": "mail.send", "after": {"jobs": [own, hidden]}}
            # An error in another job of the push is reported in the same way.
            other = {"name": "mail.send", "after": {"jobs": [never]}}
            body = {"jobs": [{"name": "mail.send"}, job, other]} if path.endswith("bulk") else job
            status, problem = await api.call("POST", path, body)
            return status, repr(problem).replace(hidden, "ID")

        for path in ("/api/jobs", "/api/jobs/bulk"):
            answers = {await asked(path, hidden) for hidden in (foreign, canceled, new_id())}
            ((status, text),) = answers
            assert (status, "'unknown_predecessor'" in text) == (422, True)
        assert (await admin.counts())["awaiting_jobs"] == 0
        # A job may wait for jobs of its own names, and may be repeated when they are over.
        waiting = new_id()
        job = {"id": waiting, "name": "mail.send", "after": {"jobs": [own], "when": "finished"}}
        assert (await api.call("POST", "/api/jobs", job))[0] == 201
        assert (await api.call("POST", f"/api/jobs/{own}/cancel"))[0] == 200
        assert (await api.call("POST", "/api/jobs", job))[0] == 200
        await api.http.aclose()


@pytest.mark.rule("E1.2")
async def test_a_master_that_cannot_tell_whether_a_token_was_revoked_lets_nobody_in(
    store_server: StoreServer,
) -> None:
    async with master_on(store_server.url, tokens=["admin:a"]) as (master, _):
        clock = Later()
        store = master.identity.directory._store
        service = Identity.on(
            store._shard,
            clock,
            ConfiguredTokens(["admin:a"]),
            LiveValue(LoginPolicy(60_000, 60_000, 10)),
        )
        text, token = await service.tokens.create(
            label="x",
            scopes=[Scope.PUSH],
            names=[],
            ttl_ms=None,
            expires_at_ms=None,
            caller=Principal("me", frozenset(Scope)),
        )
        found = service.directory.find(text.encode())
        assert found is not None
        assert found.name == f"token:{token.id}"
        clock.later_s += TRUSTED_S + 0.1
        with pytest.raises(StoreUnavailableError):
            service.directory.find(text.encode())
        assert service.directory.find(b"a") is not None
        await service.directory.reload()
        assert service.directory.find(text.encode()) == found
        await service.directory.stop()
        await service.passwords.stop()
        assert (await store.token_uses()).keys() == {token.id}


class Later(SystemClock):
    """A clock that can be advanced."""

    later_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s


def test_an_empty_list_of_names_is_refused_because_it_would_mean_all() -> None:
    fields = {"label": "x", "scopes": ["push"]}
    assert TokenRequest.model_validate(fields).names == []
    with pytest.raises(ValidationError, match="names"):
        TokenRequest.model_validate({**fields, "names": []})
