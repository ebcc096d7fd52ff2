"""Challenges that people answer: the page at their address, who may answer, and what is recorded."""

import json
import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any

import httpx
import pytest

from tests.api.challenges.test_challenges import awaiting, open_challenge, post
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.scripted_worker import ScriptedWorker, puller_at
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("P10", "D21"), real_time.MASTER]

HOSTILE = '"><script>alert(1)</script>\u202e</textarea></title>'
FORM: dict[str, Any] = {
    "title": "Refund order 42?",
    "description": "It came back.\nThe box was open.",
    "choices": [
        {"value": "approve"},
        {"value": "reject", "needs_comment": True, "skips_fields": True},
        {"value": "later", "label": "Ask me tomorrow", "skips_fields": True},
    ],
    "fields": {
        "type": "object",
        "properties": {
            "amount": {"type": "number", "title": "Amount", "minimum": 0, "maximum": 100},
            "reason": {"type": "string", "enum": ["damaged", "late"], "default": "late"},
            "is_new": {"type": "boolean", "description": "No traces of use"},
        },
        "required": ["amount"],
    },
}
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "accept-language": "en-GB,en;q=0.9"}
SENT = {**BROWSER, "content-type": "application/x-www-form-urlencoded"}
PASSWORD = "correct horse battery staple"


@pytest.fixture
async def puller(api: Api) -> AsyncIterator[ScriptedWorker]:
    async with puller_at(api) as one:
        yield one


async def get(opened: dict[str, Any], query: str = "", **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as browser:
        return await browser.get(opened["callback_url"] + query, headers={**BROWSER, **headers})


async def send(opened: dict[str, Any], query: str = "", **fields: str) -> httpx.Response:
    """Submit the form of the page as a browser does."""
    async with httpx.AsyncClient(trust_env=False) as browser:
        data = {name.replace("__", "."): value for name, value in fields.items()}
        return await browser.post(opened["callback_url"] + query, data=data, headers=BROWSER)


def text_of(page: httpx.Response) -> str:
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    body = re.sub(r"<style>.*?</style>", "", page.text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


async def the_challenge(api: Api) -> dict[str, Any]:
    (one,) = (await api.call("GET", "/api/challenges"))[1]["challenges"]
    return dict(one)


@pytest.mark.req("P4")
async def test_a_person_answers_on_the_page_and_the_handler_gets_it(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller, form=FORM)
    page = await get(opened)
    assert page.status_code == 200
    assert "Refund order 42? It came back. The box was open." in text_of(page)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "<script" not in page.text
    assert (page.headers["cache-control"], page.headers["referrer-policy"]) == ("no-store", "same-origin")
    sent = await send(opened, choice="approve", comment=" Fine. ", value__amount="12.5", value__is_new="1")
    assert (sent.status_code, sent.text) == (303, "")
    assert sent.headers["location"] == f"{opened['request_id']}?done=1"
    shown = await get(opened, "?done=1")
    assert "Your answer is recorded." in text_of(shown)
    assert "Approve" in text_of(shown)
    (job,) = await puller.claim()
    assert job["callback"]["content_type"] == "application/json"
    assert json.loads(job["callback"]["body"]) == {
        "choice": "approve", "comment": "Fine.", "values": {"amount": 12.5, "is_new": True},
        "by": "local", "address": "127.0.0.1",
    }  # fmt: skip
    await puller.end(job)
    challenge = await the_challenge(api)
    (answer,) = challenge["answers"]
    assert (challenge["state"], challenge["audience"], challenge["form"]["title"]) == (
        "succeeded", "link", FORM["title"],
    )  # fmt: skip
    assert (answer["choice"], answer["comment"], answer["by"], answer["address"]) == (
        "approve", "Fine.", "local", "127.0.0.1",
    )  # fmt: skip
    (entry, *_) = (await api.call("GET", "/api/audit"))[1]["entries"]
    assert (entry["who"], entry["action"], entry["target"]) == ("local", "challenge.answer", opened["job_id"])
    assert (entry["after"]["choice"], entry["after"]["from"]) == ("approve", "127.0.0.1")
    assert "This was answered." in text_of(await get(opened))


async def test_the_same_answer_again_changes_nothing_and_another_is_told_that_it_is_late(
    api: Api, puller: ScriptedWorker
) -> None:
    opened = await awaiting(api, puller, form=FORM)
    assert (await send(opened, choice="later")).status_code == 303
    assert (await send(opened, choice="later")).status_code == 303
    other = await send(opened, choice="approve", value__amount="1")
    assert other.status_code == 409
    assert "Another answer came before yours" in text_of(other)
    entries = (await api.call("GET", "/api/audit"))[1]["entries"]
    assert [entry["action"] for entry in entries].count("challenge.answer") == 1
    (answer,) = (await the_challenge(api))["answers"]
    assert answer["choice"] == "later"


async def test_each_fault_is_told_at_its_field_and_typed_values_stay(
    api: Api, puller: ScriptedWorker
) -> None:
    opened = await awaiting(api, puller, form=FORM)
    page = await send(opened, choice="approve", comment=HOSTILE, value__amount="much", value__reason="none")
    assert page.status_code == 422
    assert "Amount : must be of the type number" in text_of(page)
    assert "reason : must be one of the values of the list" in text_of(page)
    assert 'value="much"' in page.text
    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text
    page = await send(opened, choice="reject")
    assert "Comment : is required" in text_of(page)
    assert (await send(opened, choice="nothing")).status_code == 422
    assert (await send(opened, choice="reject", comment="broken")).status_code == 303


async def test_hostile_texts_are_shown_as_they_are(api: Api, puller: ScriptedWorker) -> None:
    form = {
        "title": HOSTILE, "description": HOSTILE, "choices": [{"value": "ok", "label": HOSTILE[:80]}],
        "fields": {"type": "object", "properties": {
            "a": {"type": "string", "title": HOSTILE, "description": HOSTILE, "default": HOSTILE},
            "b": {"type": "string", "enum": [HOSTILE]},
        }},
    }  # fmt: skip
    opened = await awaiting(api, puller, form=form)
    page = await get(opened)
    assert "<script" not in page.text
    assert page.text.count("</textarea>") == 2
    assert page.text.count("&lt;script&gt;") >= 7
    await send(opened, choice="ok", comment=HOSTILE, value__a=HOSTILE, value__b=HOSTILE)
    shown = await get(opened)
    assert "<script" not in shown.text
    assert HOSTILE in unescape(shown.text)


async def test_programs_read_and_answer_it_as_data(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller, form=FORM)
    path = f"/callbacks/{opened['request_id']}"
    status, shown = await api.call("GET", path)
    assert (status, shown["is_open"], shown["audience"]) == (200, True, "link")
    assert shown["form"]["fields"] == FORM["fields"]
    status, problem = await api.call("POST", path, {"choice": "approve", "values": {"amount": 101, "x": 1}})
    assert status == 422
    assert {(*error["loc"], error["msg"]) for error in problem["errors"]} == {
        ("values", "x", "the form has no such field"),
        ("values", "amount", "must be at most 100"),
    }
    assert (await api.call("POST", path, {"choise": "approve"}))[0] == 422
    assert (await post(opened, b"", **{"content-type": "application/json"})).status_code == 400
    assert (await post(opened, b"{}", **{"content-type": "text/plain"})).status_code == 415
    assert (await post(opened, b"\xff=1", **{"content-type": SENT["content-type"]})).status_code == 400
    big = b'{"choice": "' + b"x" * 140_000 + b'"}'
    assert (await post(opened, big, **{"content-type": "application/json"})).status_code == 413
    taken = await post(opened, b'{"choice": "later"}', **{"content-type": "application/json"})
    assert (taken.status_code, taken.json()) == (202, {"repeated": False})
    again = await post(opened, b"choice=later", **{"content-type": SENT["content-type"]})
    assert (again.status_code, again.json()) == (200, {"repeated": True})
    assert (await api.call("GET", path))[1]["is_open"] is False


@pytest.mark.req("P6")
async def test_over_and_unknown_ones_have_plain_pages(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller, form=FORM)
    await api.call("POST", f"/api/jobs/{opened['job_id']}/cancel")
    page = await get(opened)
    assert page.status_code == 410
    assert "No answer is needed any more." in text_of(page)
    late = await send(opened, choice="later")
    assert late.status_code == 410
    assert "No answer is needed any more." in text_of(late)
    plain = await awaiting(api, puller)
    page = await get(plain)
    assert (page.status_code, "This address is not for people." in text_of(page)) == (404, True)
    assert (await api.call("GET", f"/callbacks/{plain['request_id']}"))[1]["code"] == "no_form"
    unknown = {**opened, "callback_url": opened["callback_url"][:-4] + "AAAA"}
    codes = []
    for _ in range(16):
        codes += [(await get(unknown)).status_code, (await send(unknown, choice="later")).status_code]
    assert codes == [404] * 30 + [429] * 2
    page = await get(unknown)
    assert "Please wait a minute." in text_of(page)
    assert int(page.headers["retry-after"]) > 0
    # A valid link is served, no matter how many others the same address has tried.
    asked = await awaiting(api, puller, form=FORM)
    assert (await get(asked)).status_code == 200
    assert (await send(asked, choice="later")).status_code == 303


async def test_an_expired_one_says_so(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller, form=FORM, timeout_s=0.2)
    await api.until_state(opened["job_id"], "retrying", "ready")
    page = await get(opened)
    assert (page.status_code, "It is too late to answer." in text_of(page)) == (410, True)


async def test_the_page_speaks_japanese(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller, form=FORM)
    page = await get(opened, **{"accept-language": "fr, ja-JP;q=0.9, en;q=0.8"})
    assert '<html lang="ja">' in page.text
    assert "承認する" in text_of(page)
    asked = await send(opened, "?lang=ja&utm_source=mail", choice="approve", value__amount="-1")
    assert "Amount : 0 以上にしてください" in text_of(asked)
    assert '<html lang="en">' in (await get(opened, "?lang=xx")).text
    sent = await send(opened, "?lang=ja", choice="later")
    assert sent.headers["location"] == f"{opened['request_id']}?lang=ja&done=1"


async def test_pages_of_other_sites_answer_nothing(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller, form=FORM)
    for header in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        refused = await post(opened, b"choice=later", **{**SENT, **header})
        assert (refused.status_code, refused.json()["code"]) == (403, "cross_site")
    assert (await the_challenge(api))["answers"] == []


async def test_forms_that_do_not_fit_are_refused(api: Api, puller: ScriptedWorker) -> None:
    await api.enqueue("work")
    (job,) = await puller.claim()
    bad: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
        ({"form": {"title": ""}}, ("form", "title")),
        ({"form": {"title": "t", "color": "red"}}, ("form", "color")),
        ({"form": {"title": "t", "choices": [{"value": "a"}, {"value": "a"}]}}, ("form", "choices")),
        ({"form": {"title": "t", "fields": {"type": "array"}}}, ("form", "fields", "type")),
        ({"audience": "users"}, ("audience",)),
        ({"form": {"title": "t"}, "expect": 2}, ("expect",)),
        ({"form": {"title": "t"}, "signature": {"header": "X", "secret": "s" * 32}}, ("signature",)),
    ]
    for fields, loc in bad:
        status, problem = await open_challenge(puller, job, **fields)
        assert (status, tuple(problem["errors"][0]["loc"])) == (422, loc), fields
    properties = {
        f"f{n}": {"type": "string", "description": "x" * 500, "title": "y" * 500} for n in range(20)
    }
    large = {"title": "t", "fields": {"type": "object", "properties": properties}}
    status, problem = await open_challenge(puller, job, form=large)
    assert (status, problem["code"]) == (413, "form_too_large")


async def test_an_operator_answers_the_form_by_the_api(api: Api, puller: ScriptedWorker) -> None:
    opened = await awaiting(api, puller, form=FORM)
    challenge = await the_challenge(api)
    path = f"/api/jobs/{opened['job_id']}/challenges/{challenge['request']}/callback"
    status, problem = await api.call("POST", path, {"choice": "reject"})
    assert (status, problem["errors"][0]["loc"]) == (422, ["comment"])
    assert await api.call("POST", path, {"choice": "reject", "comment": "no"}) == (202, {"repeated": False})
    (job,) = await puller.claim()
    assert json.loads(job["callback"]["body"])["choice"] == "reject"


class Person:
    """The browser of a person who logs in at a master."""

    def __init__(self, url: str) -> None:
        self.http = httpx.AsyncClient(base_url=url, trust_env=False, headers=BROWSER)

    async def log_in(self, name: str) -> None:
        answer = await self.http.post(
            "/api/session", json={"user": name, "password": PASSWORD}, headers={"accept": "application/json"}
        )
        assert answer.status_code == 201, answer.text


def hidden(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert found
    return found[1]


@pytest.mark.req("D26")
async def test_users_answer_who_are_logged_in_and_may_operate(store: StoreServer) -> None:
    async with master_on(store.url, tokens=["admin:token-a"]) as (_, api):
        api.http.headers["authorization"] = "Bearer token-a"
        for name, role in (("ada", "operator"), ("bob", "operator"), ("eve", "viewer")):
            user = {"name": name, "password": PASSWORD, "role": role}
            assert (await api.call("POST", "/api/users", user))[0] == 201
        async with puller_at(api) as worker:
            opened = await awaiting(api, worker, form=FORM, audience="users", expect=2)
            path = f"/callbacks/{opened['request_id']}"
            people = {name: Person(str(api.http.base_url)) for name in ("ada", "bob", "eve", "nobody")}
            for name in ("ada", "bob", "eve"):
                await people[name].log_in(name)
            asked = await people["nobody"].http.get(path)
            assert (asked.status_code, FORM["title"] in asked.text) == (401, False)
            assert f"../#/login?then=callbacks/{opened['request_id']}" in asked.text
            came = await people["nobody"].http.get(path, headers={"sec-fetch-site": "cross-site"})
            assert (came.status_code, 'http-equiv="refresh"' in came.text) == (200, True)
            data = await people["nobody"].http.get(path, headers={"accept": "application/json"})
            assert (data.status_code, data.json()["code"]) == (401, "unauthorized")
            assert (await people["nobody"].http.post(path, data={"choice": "later"})).status_code == 401
            seen = await people["eve"].http.get(path)
            assert (seen.status_code, FORM["title"] in seen.text, "eve" in seen.text) == (
                403,
                False,
                True,
            )
            assert (await people["eve"].http.post(path, data={"choice": "later"})).status_code == 403
            page = await people["ada"].http.get(path)
            assert "You answer as ada ." in text_of(page)
            assert "0 of 2 answers are there." in text_of(page)
            forged = await people["ada"].http.post(path, data={"choice": "later", "csrf": "x"})
            assert (forged.status_code, "Nothing was recorded." in text_of(forged)) == (403, True)
            unshown = await people["ada"].http.post(
                path, json={"choice": "later"}, headers={"accept": "application/json"}
            )
            assert (unshown.status_code, unshown.json()["code"]) == (403, "csrf")
            right = {"choice": "later", "csrf": hidden(page)}
            assert (await people["ada"].http.post(path, data=right)).status_code == 303
            assert (await people["ada"].http.post(path, data=right)).status_code == 303
            own = await people["ada"].http.get(path)
            assert "This was answered." in text_of(own)
            changed = await people["ada"].http.post(path, data={**right, "choice": "reject", "comment": "no"})
            assert changed.status_code == 409
            page = await people["bob"].http.get(path)
            assert "1 of 2 answers are there." in text_of(page)
            token = hidden(page)
            assert (
                await people["bob"].http.post(path, data={"choice": "later", "csrf": token})
            ).status_code == 303
            (job,) = await worker.claim()
            assert [json.loads(one["body"])["by"] for one in job["callbacks"]] == ["user:ada", "user:bob"]
        for person in people.values():
            await person.http.aclose()


@pytest.mark.req("D26")
async def test_a_proxy_that_logs_people_in_does_so_here(store: StoreServer) -> None:
    settings = {
        "tokens": ["admin:token-a"], "public_url": "https://jobs.example.org", "login_user_header": "Remote-User",
        "login_groups_header": "Remote-Groups", "login_proxies": ["127.0.0.1/32"], "group_roles": ["ops=operator"],
    }  # fmt: skip
    async with master_on(store.url, **settings) as (_, api):
        api.http.headers["authorization"] = "Bearer token-a"
        async with puller_at(api) as worker:
            opened = await awaiting(api, worker, form=FORM, audience="users")
            assert opened["callback_url"].startswith("https://jobs.example.org/callbacks/")
            opened["callback_url"] = f"{api.http.base_url}/callbacks/{opened['request_id']}"
            ada = {"remote-user": "ada", "remote-groups": "ops"}
            assert "You answer as proxy:ada ." in text_of(await get(opened, **ada))
            for header in ({}, {"sec-fetch-site": "none"}):
                refused = await post(opened, b"choice=later&csrf=", **{**SENT, **ada, **header})
                assert refused.status_code == 403
            sent = await post(
                opened, b"choice=later&csrf=", **{**SENT, **ada, "sec-fetch-site": "same-origin"}
            )
            assert sent.status_code == 303
            (answer,) = (await the_challenge(api))["answers"]
            assert answer["by"] == "proxy:ada"
