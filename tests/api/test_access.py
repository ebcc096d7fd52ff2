"""Access of callers: every scope against every operation, and this machine only if no token is configured."""

import functools
import re
from typing import Any, cast

import httpx
import pytest

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.routes import OPERATIONS
from jqmaster.domain.identity.access import ROLE_SCOPES, Principal, Role, Scope
from jqmaster.domain.ids import new_id
from jqmaster.service.identity.sessions import Session, csrf_token_of
from tests.support.contract import check_answer
from tests.support.each import for_each
from tests.support.master import Api, app_alone, master_on
from tests.support.server import StoreServer

INCLUDED = {
    Scope.PUSH: {Scope.PUSH},
    Scope.WORK: {Scope.WORK},
    Scope.READ: {Scope.READ},
    Scope.OPERATE: {Scope.OPERATE, Scope.READ},
    Scope.ADMIN: set(Scope),
}


def path_of(operation: Operation) -> str:
    return re.sub(r"{\w+}", new_id(), operation.path)


async def ask(
    app: Any, operation: Operation, peer: tuple[str, int] | None = ("127.0.0.1", 5000), **headers: str
) -> tuple[int, Any]:
    """Send a call without a body: 401 and 403 come before anything is read, and every other answer after it."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=cast(Any, peer))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as http:
        response = await http.request(operation.method, path_of(operation), headers=headers)
    value = response.json() if response.content else None
    if response.status_code != 500:
        check_answer(operation.method, path_of(operation), response.status_code, response.headers, value)
    return response.status_code, value


def secret_of(role: Role) -> str:
    return role.ljust(43, "_")


class NoTokens:
    """Credentials that contain no token."""

    has_any = True

    def find(self, token: bytes) -> Principal | None:
        return None


class RoleSessions:
    """One session for each role."""

    async def find(self, secret: str) -> Session | None:
        role = next((role for role in Role if secret_of(role) == secret), None)
        if role is None:
            return None
        return Session(Principal(f"user:{role}", ROLE_SCOPES[role]), role, 0, csrf_token_of(role))


@functools.cache
def open_app() -> Any:
    return app_alone()


@functools.cache
def app_of_scopes() -> Any:
    return app_alone(*(f"{scope}:token-{scope}" for scope in Scope))


@functools.cache
def app_of_roles() -> Any:
    return app_alone(credentials=NoTokens(), sessions=RoleSessions())


@pytest.mark.rule("E1.1", "E1.3", "E4.3")
@pytest.mark.row(116)
@for_each("operation", OPERATIONS, ids=lambda op: f"{op.method} {op.path}")
async def test_every_role_against_every_operation(operation: Operation) -> None:
    app = app_of_roles()
    for role in Role:
        cookie: dict[str, Any] = {"Cookie": f"jqmaster_session={secret_of(role)}"}
        status, problem = await ask(app, operation, **cookie | {"X-CSRF-Token": csrf_token_of(role)})
        if operation.access is None or operation.access in ROLE_SCOPES[role]:
            assert status not in (401, 403), (role, problem)
        else:
            assert (status, problem["code"]) == (403, "forbidden"), role
        if operation.access is not None and operation.method != "GET":
            wrongs: list[dict[str, Any]] = [
                {},
                {"X-CSRF-Token": "0"},
                {"X-CSRF-Token": csrf_token_of("other")},
            ]
            for wrong in wrongs:
                status, problem = await ask(app, operation, **cookie, **wrong)
                assert (status, problem["code"]) == (403, "csrf"), role
    if operation.access is not None:
        strangers: list[dict[str, Any]] = [
            {},
            {"Cookie": "jqmaster_session=nobody"},
            {"Cookie": "other=admin"},
        ]
        for cookie in strangers:
            status, problem = await ask(app, operation, **cookie)
            assert (status, problem["code"]) == (401, "unauthorized")


# Operations that are open to everybody: health, identity of the server and of the caller, and the start of a login. The
# request ID of a callback is its credential.
OPEN: set[tuple[str, str]] = {
    ("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/openapi.json"),
    ("GET", "/api/session"), ("POST", "/api/session"), ("DELETE", "/api/session"),
    ("GET", "/api/login/oidc"), ("GET", "/api/login/oidc/callback"),
    ("GET", "/callbacks/{request_id}"), ("POST", "/callbacks/{request_id}"),
    ("POST", "/callbacks/{request_id}/progress"),
}  # fmt: skip


@pytest.mark.rule("E1.1")
def test_nothing_else_is_open_to_anybody() -> None:
    assert {(op.method, op.path) for op in OPERATIONS if op.access is None} == OPEN


@pytest.mark.rule("E1.3", "E1.1")
@for_each("operation", OPERATIONS, ids=lambda op: f"{op.method} {op.path}")
async def test_every_scope_against_every_operation(operation: Operation) -> None:
    app = app_of_scopes()
    for scope in Scope:
        status, problem = await ask(app, operation, Authorization=f"Bearer token-{scope}")
        if operation.access is None or {operation.access, operation.also} & {*INCLUDED[scope]}:
            assert status not in (401, 403), (scope, problem)
        else:
            assert (status, problem["code"]) == (403, "forbidden"), scope
    if operation.access is None:
        return
    for credential in (
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Basic dTpw",
        "Bearer token-push extra",
        "token-admin",
    ):
        headers: dict[str, Any] = {"Authorization": credential} if credential else {}
        status, problem = await ask(app, operation, **headers)
        assert (status, problem["code"]) == (401, "unauthorized"), credential


@for_each("operation", OPERATIONS, ids=lambda op: f"{op.method} {op.path}")
async def test_without_tokens_only_this_machine_is_served(operation: Operation) -> None:
    app = open_app()
    for peer in (("127.0.0.1", 5000), ("127.8.9.1", 5000), ("::1", 5000), None):
        assert (await ask(app, operation, peer))[0] not in (401, 403)
    for host in ("10.0.0.5", "192.168.1.1", "203.0.113.9", "fe80::1", "0.0.0.0", "garbage"):
        status, problem = await ask(app, operation, (host, 5000))
        if operation.access is None:
            assert status not in (401, 403)
        else:
            assert (status, problem["code"]) == (403, "local_only"), host


@for_each("operation", [op for op in OPERATIONS if op.access], ids=lambda op: f"{op.method} {op.path}")
async def test_pages_of_other_sites_change_nothing_and_take_no_room(operation: Operation) -> None:
    app = open_app()
    others: list[dict[str, Any]] = [
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
    ]
    for headers in others:
        status, problem = await ask(app, operation, **headers)
        if operation.method == "GET" and not operation.has_effect:
            assert status != 403
        else:
            assert (status, problem["code"]) == (403, "cross_site")
    status, problem = await ask(app, operation, Host="rebound.example")
    assert (status, problem["code"]) == (400, "bad_host")


def test_those_of_get_that_have_an_effect_say_so() -> None:
    """Fetching a result starts the time after which it is removed. A stream, or a call that waits for partial results
    or log lines, takes one of few places."""
    effective = {op.path for op in OPERATIONS if op.method == "GET" and op.has_effect}
    assert effective == {
        "/api/jobs/{job_id}/result",
        "/api/jobs/{job_id}/parts",
        "/api/jobs/{job_id}/logs",
        "/api/jobs/{job_id}/stream",
        "/api/stream",
    }


async def test_a_mere_pusher_cancels_a_job_and_reads_nothing_of_it(store_server: StoreServer) -> None:
    tokens = ["push:token-push", "push+read:token-both"]
    async with master_on(store_server.url, tokens=tokens) as (master, nobody):
        pusher, reader = (Api(master.server.url, f"token-{name}") for name in ("push", "both"))
        job_id = await pusher.enqueue("work", "secret", headers={"trace": "secret"})
        assert (await nobody.call("POST", f"/api/jobs/{job_id}/cancel"))[0] == 401
        status, job = await pusher.call("POST", f"/api/jobs/{job_id}/cancel")
        assert (status, job["id"], job["state"]) == (200, job_id, "canceled")
        assert (job["argument"], job["headers"], job["attempts"]) == (None, {}, [])
        assert "secret" not in str(job)
        status, job = await reader.call("POST", f"/api/jobs/{job_id}/cancel")
        assert (status, job["argument"], job["headers"]) == (200, "secret", {"trace": "secret"})
        for api in (pusher, reader):
            await api.http.aclose()


@pytest.mark.row(67)
async def test_tokens_open_their_part_of_a_real_master(store_server: StoreServer) -> None:
    tokens = [f"{scope}:token-{scope}" for scope in ("push", "work", "read", "operate")]
    async with master_on(store_server.url, tokens=[*tokens, "push+read:token-both"]) as (master, nobody):
        apis = {
            name: Api(master.server.url, f"token-{name}")
            for name in ("push", "work", "read", "operate", "both", "revoked")
        }
        job = {"name": "work"}
        for name, expected in {
            "push": 201,
            "both": 201,
            "work": 403,
            "read": 403,
            "operate": 403,
            "revoked": 401,
        }.items():
            assert (await apis[name].call("POST", "/api/jobs", job))[0] == expected, name
        assert (await nobody.call("POST", "/api/jobs", job))[0] == 401
        job_id = await apis["both"].enqueue("work")
        for name, expected in {"read": 200, "operate": 200, "both": 200, "push": 403, "work": 403}.items():
            assert (await apis[name].call("GET", f"/api/jobs/{job_id}"))[0] == expected, name
        assert (await apis["push"].call("GET", f"/api/jobs/{job_id}/result"))[0] == 202
        assert (await apis["read"].call("POST", f"/api/jobs/{job_id}/run"))[0] == 403
        assert (await apis["operate"].call("DELETE", f"/api/jobs/{job_id}"))[0] == 204
        assert (await apis["both"].counts())["ready"] == 2
        for path in ("/healthz", "/readyz", "/openapi.json"):
            assert (await nobody.call("GET", path))[0] == 200
        for api in apis.values():
            await api.http.aclose()


async def test_an_unknown_path_looks_the_same_to_everybody(api: Api) -> None:
    for path in (
        "/api/nothing",
        "/api",
        "/api/jobs/",
        "/admin",
        "/api/jobs/x/y/z",
        "/.env",
        "/metrics.txt",
    ):
        for method in ("GET", "POST", "DELETE"):
            status, problem = await api.call(method, path)
            assert (status, problem["code"]) == (404, "not_found"), (method, path)


@pytest.mark.row(18)
@for_each("operation", OPERATIONS, ids=lambda op: f"{op.method} {op.path}")
async def test_a_method_that_a_path_does_not_have_is_named_as_such(operation: Operation) -> None:
    offered = {op.method for op in OPERATIONS if op.path == operation.path}
    transport = httpx.ASGITransport(open_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as http:
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} - offered:
            response = await http.request(method, path_of(operation))
            assert response.status_code == 405
            assert set(response.headers["Allow"].split(", ")) == offered
