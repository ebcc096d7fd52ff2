"""No view, preview, filter or list bypasses the right to content, and none bypasses redaction."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import ScriptedWorker, worker_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("D18"), pytest.mark.rule("E6.1"), real_time.MASTER]

TOKENS = ["read:t-viewer", "operate+push:t-operator", "admin:t-admin", "push+work+read:t-worker"]
WORK = {"field": "name", "op": "eq", "value": "work"}
MARK = "MARKpw-7Qz"


@dataclass(frozen=True, slots=True)
class Callers:
    viewer: Api
    operator: Api
    admin: Api
    worker: Api


@contextlib.asynccontextmanager
async def callers_of(store_url: str, **settings: Any) -> AsyncIterator[Callers]:
    async with master_on(store_url, tokens=TOKENS, **settings) as (master, _):
        names = ("viewer", "operator", "admin", "worker")
        apis = {name: Api(master.server.url, f"t-{name}") for name in names}
        try:
            yield Callers(**apis)
        finally:
            for api in apis.values():
                await api.http.aclose()


async def code(answer: Any) -> tuple[int, str | None]:
    status, body = await answer
    return status, body.get("code") if status >= 400 else None


async def preview(api: Api, matcher: Any = WORK, **fields: Any) -> tuple[int, str | None]:
    return await code(api.call("POST", "/api/constraints/preview", {"matcher": matcher, **fields}))


ON_CONTENT: list[dict[str, Any]] = [
    {"key": "argument.password"},
    {"key": "argument"},
    {"key": "headers.x-secret"},
    {"matcher": {"field": "argument.password", "op": "glob", "value": "M*"}},
    {"matcher": {"field": "headers.x-secret", "op": "eq", "value": MARK}},
    {"matcher": {"all": [WORK, {"not": {"any": [{"field": "argument.password", "op": "exists"}]}}]}},
]


async def test_a_preview_tells_viewers_nothing_of_what_jobs_carry(store_server: StoreServer) -> None:
    async with callers_of(store_server.url) as callers:
        await callers.operator.enqueue("work", {"password": MARK}, headers={"x-secret": MARK})
        for fields in ON_CONTENT:
            assert await preview(callers.viewer, **fields) == (403, "content_hidden"), fields
            assert await preview(callers.operator, **fields) == (200, None), fields
        assert await preview(callers.viewer, key="priority") == (200, None)
        assert await preview(callers.viewer, {"field": "tags", "op": "exists", "value": False}) == (200, None)
        status, problem = await callers.viewer.call(
            "POST", "/api/constraints/preview", {"matcher": WORK, "key": "argument.password"}
        )
        assert (status, problem["errors"][0]["loc"]) == (403, ["key"])


async def test_viewers_may_be_let_preview(store_server: StoreServer) -> None:
    async with callers_of(store_server.url, viewers_see_content=True) as callers:
        assert await preview(callers.viewer, key="argument.password") == (200, None)


async def test_values_of_failures_hold_nothing_that_is_redacted(store_server: StoreServer) -> None:
    async with (
        callers_of(store_server.url, redact_paths="argument.**.password headers.x-secret") as callers,
        worker_at(callers.worker) as worker,
    ):
        argument = {"login": {"password": MARK, "user": "ada"}}
        await callers.operator.enqueue("work", argument, headers={"x-secret": MARK}, max_retry=0)
        await worker.end(await worker.next_job(), "failure", message="boom")

        async def seen() -> Any:
            return (await callers.operator.call("GET", "/api/failures"))[1]["groups"]

        (group,) = await wait_until(seen, what="the failure is counted")
        path = f"/api/failures/{group['id']}/values?path="
        for place in ("argument", "argument.login"):
            status, found = await callers.operator.call("GET", path + place)
            assert (status, found["examined"]) == (200, 1)
            (one,) = found["values"]
            assert MARK not in one["value"]
            assert '"password": "[redacted]", "user": "ada"' in one["value"]
        for place in ("argument.login.password", "headers.x-secret"):
            refused = await code(callers.operator.call("GET", path + place))
            assert refused == (403, "content_redacted"), place
        for place in ("argument.login.user", "argument", "headers.other"):
            assert await code(callers.viewer.call("GET", path + place)) == (403, "content_hidden"), place


async def test_nobody_tells_jobs_apart_by_what_is_redacted(store_server: StoreServer) -> None:
    paths = "argument.card.number headers.x-secret"
    async with callers_of(store_server.url, redact_paths=paths) as callers:
        above_and_below = (
            "argument",
            "argument.card",
            "argument.card.number",
            "argument.card.number.x",
            "headers.X-Secret",
        )
        for path in above_and_below:
            for api in (callers.viewer, callers.operator, callers.admin):
                assert await preview(api, key=path) == (403, "content_redacted"), path
                exists = {"field": path, "op": "exists"}
                if path != "argument":
                    assert await preview(api, exists) == (403, "content_redacted"), path
            for body in (
                {"matcher": WORK, "key": path, "concurrency": 1},
                {"matcher": {"field": path, "op": "eq", "value": "x"}, "concurrency": 1},
            ):
                assert await code(callers.admin.call("PUT", "/api/constraints/c1", body)) == (
                    403,
                    "content_redacted",
                )
        assert await preview(callers.operator, key="argument.card.name") == (200, None)
        body = {"matcher": WORK, "key": "argument.card.name", "concurrency": 1}
        assert (await callers.operator.call("PUT", "/api/constraints/c1", body))[0] == 201


async def test_a_preview_of_a_job_is_no_way_to_guess_what_constraints_tell_apart(
    store_server: StoreServer,
) -> None:
    async with callers_of(store_server.url) as callers:
        for fields in ({"argument": {"a": 1}}, {"headers": {"a": "b"}}):
            job = {"name": "work", **fields}
            assert await code(callers.viewer.call("POST", "/api/jobs/preview", job)) == (
                403,
                "content_hidden",
            )
            assert await code(callers.operator.call("POST", "/api/jobs/preview", job)) == (200, None)
        plain: dict[str, Any] = {"name": "work", "priority": 3, "tags": ["a"]}
        assert await code(callers.viewer.call("POST", "/api/jobs/preview", plain)) == (200, None)


KEYED = {
    "matcher": {"all": [WORK, {"field": "argument.tenant", "op": "ne", "value": "MARKmatcher"}]},
    "key": "argument.tenant", "concurrency": 1, "overrides": [{"value": "MARKoverride", "concurrency": 2}],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """A constraint by tenant, with one running job and one job that waits for its slot."""

    callers: Callers
    worker: ScriptedWorker
    running: str
    waiting: str

    async def views(self, api: Api) -> dict[str, Any]:
        paths = (
            f"/api/jobs/{self.waiting}/why", f"/api/jobs/{self.running}/why", "/api/constraints",
            "/api/constraints/by-tenant",
        )  # fmt: skip
        return {path: (await api.call("GET", path))[1] for path in paths}


@contextlib.asynccontextmanager
async def held(callers: Callers) -> AsyncIterator[Held]:
    async with worker_at(callers.worker) as worker:
        if (await callers.operator.call("GET", "/api/constraints/by-tenant"))[0] == 404:
            assert (await callers.operator.call("PUT", "/api/constraints/by-tenant", KEYED))[0] == 201
        running = await callers.operator.enqueue("work", {"tenant": MARK})
        await worker.next_job()
        waiting = await callers.operator.enqueue("work", {"tenant": MARK})
        yield Held(callers, worker, running, waiting)
        for job_id in (waiting, running):
            await callers.operator.call("POST", f"/api/jobs/{job_id}/cancel")


async def test_values_of_keys_are_hidden_from_viewers(store_server: StoreServer) -> None:
    async with callers_of(store_server.url) as callers, held(callers) as jobs:
        views = await jobs.views(callers.viewer)
        assert "MARK" not in str(views)
        why, detail = views[f"/api/jobs/{jobs.waiting}/why"], views["/api/constraints/by-tenant"]
        assert why["verdicts"][0]["key_value"] == why["constraints"][0]["key_value"] == "[hidden]"
        assert "argument.tenant = [hidden]" in why["verdicts"][0]["text"]
        assert [one["value"] for one in (*detail["top_keys"], *detail["holders"])] == ["[hidden]", "[hidden]"]
        assert detail["overrides"][0]["value"] == "[hidden]"
        assert (detail["values_hidden"], detail["top_keys"][0]["waiting"]) == (True, 1)
        # A caller cannot query a value that they may not see.
        asked = callers.viewer.call("GET", "/api/constraints/by-tenant?value=guess")
        assert await code(asked) == (403, "content_hidden")
        shown = await jobs.views(callers.operator)
        assert shown[f"/api/jobs/{jobs.waiting}/why"]["verdicts"][0]["key_value"] == MARK
        assert shown["/api/constraints/by-tenant"]["holders"][0]["value"] == MARK
        assert shown["/api/constraints/by-tenant"]["values_hidden"] is False


async def test_redacted_values_of_keys_are_shown_to_nobody(store_server: StoreServer) -> None:
    async with callers_of(store_server.url) as callers, held(callers) as jobs:
        limited = {"value": MARK, "paused": True}
        assert (await callers.operator.call("POST", "/api/constraints/by-tenant/values", limited))[0] == 200
        changes = {"redact_paths": ["argument.tenant"]}
        assert (await callers.admin.call("PATCH", "/api/settings", changes))[0] == 200
        for api in (callers.viewer, callers.operator, callers.admin):
            assert "MARK" not in str(await jobs.views(api))
        for api in (callers.operator, callers.admin):
            # Entries from before the redaction are redacted when they are read.
            assert "MARK" not in str(await api.call("GET", "/api/audit"))
            asked = api.call("GET", f"/api/constraints/by-tenant?value={MARK}")
            assert await code(asked) == (403, "content_redacted")
            job = {"name": "work", "argument": {"tenant": MARK}}
            (applied,) = (await api.call("POST", "/api/jobs/preview", job))[1]["constraints"]
            assert (applied["key_value"], applied["limits"]["paused"]) == ("[redacted]", False)


async def test_a_constraint_is_changed_by_who_does_not_see_all_of_it(store_server: StoreServer) -> None:
    async with callers_of(store_server.url) as callers:
        path = "/api/constraints/by-tenant"
        overrides = [{"value": "MARK1", "concurrency": 2}, {"value": "MARK2", "paused": True}]
        assert (await callers.operator.call("PUT", path, {**KEYED, "overrides": overrides}))[0] == 201
        await callers.admin.call("PATCH", "/api/settings", {"redact_paths": ["argument.tenant"]})
        _, shown = await callers.operator.call("GET", path)
        assert "MARK" not in str(shown)
        fields = ("matcher", "key", "concurrency", "overrides", "mode", "enabled", "fair")
        document = {field: shown[field] for field in fields}
        status, changed = await callers.operator.call("PUT", path, {**document, "concurrency": 9})
        assert (status, changed["concurrency"], changed["overrides"]) == (200, 9, shown["overrides"])
        # The check applies only to what the request changes.
        one_less = {**document, "overrides": document["overrides"][:1]}
        assert await code(callers.operator.call("PUT", path, one_less)) == (403, "content_redacted")
        await callers.admin.call("PATCH", "/api/settings", {"redact_paths": []})
        _, kept = await callers.operator.call("GET", path)
        assert (kept["matcher"], kept["concurrency"]) == (KEYED["matcher"], 9)
        assert [one["value"] for one in kept["overrides"]] == ["MARK1", "MARK2"]


async def test_a_value_that_nobody_sees_is_limited_by_a_job_that_has_it(store_server: StoreServer) -> None:
    async with callers_of(store_server.url, redact_paths="argument.card") as callers, held(callers) as jobs:
        values = "/api/constraints/by-tenant/values"
        paused = {"job_id": jobs.waiting, "paused": True}
        assert (await callers.operator.call("POST", values, paused))[0] == 200
        assert await code(callers.operator.call("POST", values, {"value": 1, "job_id": jobs.waiting})) == (
            422,
            "invalid",
        )
        assert await code(callers.operator.call("POST", values, {"paused": True})) == (422, "invalid")
        await callers.admin.call("PATCH", "/api/settings", {"redact_paths": ["argument.tenant"]})
        guess = callers.operator.call("POST", values, {"value": "guess", "paused": True})
        assert await code(guess) == (403, "content_redacted")
        _, why = await callers.operator.call("GET", f"/api/jobs/{jobs.waiting}/why")
        assert why["constraints"][0]["paused"]
        status, _ = await callers.operator.call("POST", values, {"job_id": jobs.waiting})
        _, why = await callers.operator.call("GET", f"/api/jobs/{jobs.waiting}/why")
        assert (status, why["constraints"][0]["paused"]) == (200, False)
        assert MARK not in str(await callers.operator.call("GET", "/api/audit"))
        unknown = {"job_id": "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"}
        assert await code(callers.operator.call("POST", values, unknown)) == (404, "unknown_job")
        other = await callers.operator.enqueue("work", {"no": "tenant"}, delay=100)
        assert await code(callers.operator.call("POST", values, {"job_id": other})) == (422, "invalid")


async def test_texts_of_errors_are_no_filter_for_those_who_do_not_see_them(store_server: StoreServer) -> None:
    async with callers_of(store_server.url) as callers, worker_at(callers.worker) as worker:
        job_id = await callers.operator.enqueue("work", max_retry=0)
        await worker.end(await worker.next_job(), "failure", message=f"ValueError: boom {MARK}")
        group = {"failure_group": "0" * 16}
        for query in (f"text={MARK}", "failure_group=" + "0" * 16):
            assert await code(callers.viewer.call("GET", f"/api/jobs?{query}")) == (403, "content_hidden")
            assert await code(callers.operator.call("GET", f"/api/jobs?{query}")) == (200, None)
        for wanted in ({"text": MARK}, group):
            action = {"action": "delete", "filter": {**wanted, "name": "none"}}
            assert (await callers.operator.call("POST", "/api/jobs/actions", action))[0] == 202
        _, actions = await callers.viewer.call("GET", "/api/jobs/actions")
        assert MARK not in str(actions)
        assert {one["filter"]["text"] for one in actions["actions"]} == {"[hidden]", None}
        assert {one["filter"]["failure_group"] for one in actions["actions"]} == {None}
        _, actions = await callers.operator.call("GET", "/api/jobs/actions")
        assert MARK in str(actions)

        await callers.admin.call("PATCH", "/api/settings", {"redact_paths": ["error.message"]})
        for api in (callers.operator, callers.admin):
            assert MARK not in str((await api.job(job_id))["attempts"])
            assert MARK not in str(await api.call("GET", "/api/jobs/actions"))
            assert MARK not in str(await api.call("GET", "/api/audit"))
            assert await code(api.call("GET", "/api/jobs?text=x")) == (403, "content_redacted")
            for dry_run in (True, False):
                by_text: dict[str, Any] = {"action": "retry", "filter": {"text": MARK}, "dry_run": dry_run}
                assert await code(api.call("POST", "/api/jobs/actions", by_text)) == (403, "content_redacted")


async def test_viewers_see_the_type_of_an_exception_and_not_its_text(store_server: StoreServer) -> None:
    async with callers_of(store_server.url) as callers, worker_at(callers.worker) as worker:
        error = {"type": "ValueError", "message": f"boom {MARK}", "traceback": f"… ValueError: boom {MARK}"}
        job_id = await callers.operator.enqueue("work", max_retry=0, keep_result=True)
        await worker.end(await worker.next_job(), "failure", message=f"ValueError: boom {MARK}", error=error)
        job = await callers.viewer.job(job_id)
        assert MARK not in str(job)
        (attempt,) = job["attempts"]
        assert (attempt["message"], attempt["error_type"], attempt["error"]) == (None, "ValueError", None)
        (attempt,) = (await callers.operator.job(job_id))["attempts"]
        assert (attempt["message"], attempt["error_type"]) == (f"ValueError: boom {MARK}", "ValueError")

        # Redacting the text also removes its copies, for example in the traceback and in the result.
        await callers.admin.call("PATCH", "/api/settings", {"redact_paths": ["error.message"]})
        job = await callers.operator.job(job_id)
        assert MARK not in str(job)
        assert (job["attempts"][0]["message"], job["attempts"][0]["error_type"]) == (
            "[redacted]",
            "ValueError",
        )
        assert job["result"]["message"] == "[redacted]"
        assert job["attempts"][0]["error"]["traceback"] == "… ValueError: [redacted]"


async def test_redacted_values_are_taken_out_of_texts_that_quote_them(store_server: StoreServer) -> None:
    paths = "argument.card headers.x-secret error.sql"
    async with (
        callers_of(store_server.url, redact_paths=paths) as callers,
        worker_at(callers.worker) as worker,
    ):
        job_id = await callers.operator.enqueue(
            "work",
            {"card": {"no": "4111-MARK"}, "n": 1},
            headers={"X-Secret": "header-MARK"},
            max_retry=0,
            keep_result=True,
        )
        text = "ValueError: boom with {'no': '4111-MARK'} and header-MARK in select-MARK"
        error = {"sql": "select-MARK", "traceback": text}
        await worker.end(await worker.next_job(), "failure", message=text, error=error)
        job = await callers.operator.job(job_id)
        assert "MARK" not in str(job)
        expected = "ValueError: boom with {'no': '[redacted]'} and [redacted] in [redacted]"
        assert job["attempts"][0]["message"] == expected
        assert (job["argument_redacted"], job["headers_redacted"]) == (True, True)
        for api in (callers.viewer, callers.operator):
            _, listed = await api.call("GET", "/api/jobs?include=error,argument,worker")
            assert "MARK" not in str(listed)
        assert listed["jobs"][0]["error"] == expected
        assert listed["jobs"][0]["argument_excerpt"] == '{"card":"[redacted]","n":1}'
        by_card = quote('{"field": "argument.card.no", "op": "exists", "value": true}')
        asked = callers.operator.call("GET", f"/api/jobs?matcher={by_card}")
        assert await code(asked) == (403, "content_redacted")
        asked = callers.viewer.call("GET", f"/api/jobs/count?matcher={by_card.replace('card', 'n')}")
        assert await code(asked) == (403, "content_hidden")
        wanted = {"matcher": {"field": "argument.n", "op": "eq", "value": 1}}
        begin = {"action": "retry", "filter": wanted, "dry_run": True}
        assert (await callers.operator.call("POST", "/api/jobs/actions", begin))[0] == 200
        hidden = {**begin, "filter": {"matcher": {"field": "argument.card.no", "op": "eq", "value": 1}}}
        asked = callers.operator.call("POST", "/api/jobs/actions", hidden)
        assert await code(asked) == (403, "content_redacted")


async def test_the_last_error_of_a_job_that_retries_is_content_and_redacted(
    store_server: StoreServer,
) -> None:
    tokens = ["push:t-pusher", "push+read:t-reader", "push+work+read:t-worker"]
    async with master_on(store_server.url, tokens=tokens, redact_paths="argument.card") as (master, _):
        pusher, reader, own = (Api(master.server.url, f"t-{name}") for name in ("pusher", "reader", "worker"))
        async with pusher.http, reader.http, own.http, worker_at(own) as worker:
            job_id = await pusher.enqueue("work", {"card": MARK}, keep_result=True, retry={"base_s": 3600})
            await worker.end(await worker.next_job(), "failure", message=f"no money on {MARK}")
            path = f"/api/jobs/{job_id}/result"
            assert await pusher.call("GET", path) == (202, {"state": "retrying", "last_error": None})
            _, answer = await reader.call("GET", path)
            assert answer == {"state": "retrying", "last_error": "no money on [redacted]"}


async def test_messages_of_the_master_itself_are_shown_to_everybody(store_server: StoreServer) -> None:
    async with callers_of(store_server.url, max_losses=1) as callers:
        async with worker_at(callers.worker) as worker:
            job_id = await callers.operator.enqueue("work")
            await worker.next_job()
            worker.is_silent = worker.is_deaf = True

            async def lost() -> dict[str, Any] | None:
                job = await callers.viewer.job(job_id)
                return job if job["state"] == "failed" else None

            job = await wait_until(lost, timeout_s=20, what="the job is lost with its worker")
        assert job["attempts"][-1]["outcome"] == "lost"
        assert job["attempts"][-1]["message"]


async def test_a_view_says_that_what_it_shows_is_incomplete(store_server: StoreServer) -> None:
    async with callers_of(store_server.url, redact_paths="argument.pin") as callers:
        whole = await callers.operator.job(await callers.operator.enqueue("work", {"a": 1}))
        partial = await callers.operator.job(await callers.operator.enqueue("work", {"pin": 1}))
        assert (whole["argument_redacted"], partial["argument_redacted"]) == (False, True)
        assert (whole["headers_redacted"], partial["headers_redacted"]) == (False, False)
        hidden = await callers.viewer.job(partial["id"])
        assert (hidden["argument_hidden"], hidden["argument_redacted"]) == (True, False)


async def failed(callers: Callers, worker: ScriptedWorker, text: str, **fields: Any) -> str:
    """Run a job that fails for good with a ValueError of this text."""
    job_id = await callers.operator.enqueue("work", max_retry=0, **fields)
    error = {"type": "ValueError", "message": text, "traceback": f"… ValueError: {text}"}
    await worker.end(await worker.next_job(), "failure", message=f"ValueError: {text}", error=error)
    return job_id


async def groups_of(api: Api, query: str = "") -> list[dict[str, Any]]:
    status, page = await api.call("GET", f"/api/failures?{query}")
    assert status == 200, page
    groups: list[dict[str, Any]] = page["groups"]
    return groups


async def test_viewers_see_failures_by_type_and_not_their_texts(store_server: StoreServer) -> None:
    async with callers_of(store_server.url) as callers, worker_at(callers.worker) as worker:
        await failed(callers, worker, "MARKone is gone")
        last = await failed(callers, worker, "MARKtwo is gone")

        async def counted() -> list[dict[str, Any]] | None:
            groups = await groups_of(callers.operator)
            return groups if len(groups) == 2 else None

        groups = await wait_until(counted, what="both groups are counted")
        assert {group["message"] for group in groups} == {
            "ValueError: MARKone is gone",
            "ValueError: MARKtwo is gone",
        }
        (group,) = await groups_of(callers.viewer)
        assert "MARK" not in str(group)
        assert (group["message"], group["message_hidden"], group["error_type"]) == (
            "[hidden]",
            True,
            "ValueError",
        )
        assert (group["count"], group["example_job_id"]) == (2, last)
        # Neither the group's ID nor a search reveals the text.
        assert group["id"] not in {one["id"] for one in groups}
        assert await groups_of(callers.viewer, "q=MARK") == []
        assert len(await groups_of(callers.viewer, "q=WORK")) == 1
        assert len(await groups_of(callers.operator, "q=MARKone")) == 1

        await callers.admin.call("PATCH", "/api/settings", {"redact_paths": ["error.message"]})
        groups = await groups_of(callers.operator)
        assert [(one["message"], one["error_type"]) for one in groups] == [("[redacted]", "ValueError")] * 2
        assert await groups_of(callers.operator, "q=MARK") == []
        # Actions on these groups still work.
        action = {"action": "retry", "filter": {"failure_group": groups[0]["id"]}, "dry_run": True}
        assert (await callers.operator.call("POST", "/api/jobs/actions", action))[1]["count"] == 1


async def test_a_group_of_failures_does_not_quote_what_is_redacted(store_server: StoreServer) -> None:
    async with (
        callers_of(store_server.url, redact_paths="argument.card error.sql") as callers,
        worker_at(callers.worker) as worker,
    ):
        job_id = await failed(callers, worker, "no card MARKcard", argument={"card": "MARKcard"})

        async def counted() -> list[dict[str, Any]]:
            return await groups_of(callers.operator)

        (group,) = await wait_until(counted, what="the group is counted")
        assert (group["message"], group["message_hidden"]) == ("ValueError: no card [redacted]", False)
        # Once the job is gone, nothing tells which values its texts quote.
        stored = await callers.operator.call("DELETE", f"/api/jobs/{job_id}")
        assert stored[0] == 204
        assert {one["message"] for one in await groups_of(callers.operator)} <= {"[redacted]"}
