"""Notices over HTTP: a real master sends them to a real mail server and real webhook receivers."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jqmaster.domain.ids import new_id
from tests.support import real_time
from tests.support.each import for_each
from tests.support.mail_server import Authority, MailServer, mail_server
from tests.support.master import Api, master_on
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from tests.support.webhook_receiver import FORMER_SECRET, SECRET, Answer, receiver

pytestmark = [pytest.mark.req("M5"), real_time.MASTER]

MAIL = {"when": "job_failed", "to": [{"mail": ["ops@shop.example"]}]}


@pytest.fixture
async def mails() -> AsyncIterator[MailServer]:
    async with mail_server() as server:
        yield server


@pytest.fixture
async def api(store_server: StoreServer, mails: MailServer) -> AsyncIterator[Api]:
    settings: dict[str, Any] = {
        "smtp_url": f"smtp://127.0.0.1:{mails.port}",
        "mail_from": "jq@shop.example",
        "allowed_webhook_networks": "127.0.0.0/8",
    }
    async with master_on(store_server.url, **settings) as (_, one):
        yield one


async def put(api: Api, name: str = "n", **fields: Any) -> dict[str, Any]:
    status, shown = await api.call("PUT", f"/api/notices/{name}", {**MAIL, **fields})
    assert status in (200, 201), shown
    return dict(shown)


async def deliveries(api: Api, name: str = "n") -> list[dict[str, Any]]:
    status, found = await api.call("GET", f"/api/jobs?tag=notice:{name}")
    assert status == 200, found
    return list(found["jobs"])


async def test_a_notice_is_made_changed_and_deleted(api: Api) -> None:
    status, shown = await api.call("PUT", "/api/notices/n", MAIL)
    assert status == 201
    assert (shown["threshold"], shown["at_most_every_s"], shown["group_by"]) == (1, 300, "none")
    etag = shown["etag"]
    status, again = await api.call("PUT", "/api/notices/n", MAIL, **{"If-Match": f'"{etag}"'})
    assert (status, again["etag"]) == (200, etag)
    status, problem = await api.call(
        "PUT", "/api/notices/n", {**MAIL, "threshold": 5}, **{"If-Match": '"0123456789abcdef"'}
    )
    assert (status, problem["code"]) == (412, "precondition_failed")
    status, problem = await api.call("PUT", "/api/notices/n", MAIL, **{"If-None-Match": "*"})
    assert (status, problem["code"]) == (412, "notice_exists")
    lasting = await put(api, when="backlog_age")
    assert lasting["threshold"] == 60
    status, listed = await api.call("GET", "/api/notices")
    assert [one["name"] for one in listed["notices"]] == ["n"]
    status, muted = await api.call("POST", "/api/notices/n/mute", {"until": "2099-01-01T00:00:00Z"})
    assert (status, muted["muted_until"]) == (200, "2099-01-01T00:00:00.000Z")
    status, muted = await api.call("POST", "/api/notices/n/mute", {"until": None})
    assert (status, muted["muted_until"]) == (200, None)
    assert (await api.call("DELETE", "/api/notices/n"))[0] == 204
    for method, path, body in (
        ("GET", "/api/notices/n", None),
        ("DELETE", "/api/notices/n", None),
        ("POST", "/api/notices/n/test", None),
        ("POST", "/api/notices/n/mute", {"until": None}),
        ("POST", "/api/notices/n/acknowledge", {}),
    ):
        status, problem = await api.call(method, path, body)
        assert (status, problem["code"]) == (404, "unknown_notice"), path
    entries = (await api.call("GET", "/api/audit"))[1]["entries"]
    assert [entry["action"] for entry in entries[:5]] == [
        "notice.delete",
        "notice.unmute",
        "notice.mute",
        "notice.put",
        "notice.put",
    ]


@for_each(
    ("fields", "loc"),
    [
        ({"when": "never"}, ["when"]),
        ({"to": []}, ["to"]),
        ({"to": [{}]}, ["to", 0]),
        ({"to": [{"mail": ["x"]}]}, ["to", 0, "mail", 0]),
        ({"to": [{"webhook": "https://x.example/"}]}, ["to", 0, "webhook"]),
        ({"to": [{"webhook": "https://x.example/", "secret": "x"}]}, ["to", 0, "secret"]),
        ({"threshold": 0}, ["threshold"]),
        ({"at_most_every_s": 1}, ["at_most_every_s"]),
        ({"matcher": {"field": "argument.a", "op": "eq", "value": 1}}, ["matcher", "field"]),
        ({"when": "worker_lost", "group_by": "name"}, ["group_by"]),
        ({"name": "other"}, ["name"]),
        ({"more": 1}, ["more"]),
    ],
)
async def test_bad_notices_name_the_field(api: Api, fields: dict[str, Any], loc: list[Any]) -> None:
    status, problem = await api.call("PUT", "/api/notices/n", {**MAIL, **fields})
    assert (status, problem["errors"][0]["loc"]) == (422, loc)


@pytest.mark.req("P7")
async def test_failed_jobs_become_one_mail(api: Api, mails: MailServer) -> None:
    await put(api)
    async with puller_at(api) as worker:
        # Failures before the first evaluation do not count.
        await wait_until_looked(api)
        for _ in range(3):
            await api.enqueue("work", max_retry=0)
            (job,) = await worker.claim()
            await worker.end(
                job, "failure", reason="other", should_retry=False, message="<script>x</script>", error=None
            )
    # The first mail is the one from `wait_until_looked`.
    _, (address, mail), *more = await mails.until(2)
    assert (address, mail["Subject"], more) == ("ops@shop.example", "[jqmaster] 3 jobs failed", [])
    html = mail.get_body(("html",))
    assert html is not None
    assert "&lt;script&gt;" in html.get_content()
    assert "<script>" not in html.get_content()
    (delivery,) = await deliveries(api)
    assert delivery["name"] == "jq.mail"
    await api.until_state(delivery["id"], "succeeded")
    shown = (await api.call("GET", "/api/notices/n"))[1]
    (incident,) = shown["incidents"]
    assert (incident["count"], incident["told"]) == (3, 3)
    assert [one["kind"] for one in shown["recent"]] == ["first"]
    status, answer = await api.call("POST", "/api/notices/n/acknowledge", {"key": ""})
    assert (status, answer["acknowledged"]) == (200, 1)
    assert (await api.call("GET", "/api/notices/n"))[1]["incidents"][0]["acknowledged_by"] == "local"
    # Mails are jobs, but their argument is not shown here.
    assert b"script" not in (await api.http.get(f"/api/jobs/{delivery['id']}")).content


async def wait_until_looked(api: Api, when: str = "job_failed") -> None:
    """Wait until a test message is sent: the first evaluation sends it."""
    first = {**MAIL, "when": when, "to": [{"mail": ["first@shop.example"]}]}
    await api.call("PUT", "/api/notices/first", first)
    await api.call("POST", "/api/notices/first/test")

    async def is_sent() -> bool:
        return bool((await api.call("GET", "/api/notices/first"))[1]["recent"])

    await wait_until(is_sent, what="a round of notices")
    assert (await api.call("DELETE", "/api/notices/first"))[0] == 204


async def test_a_test_reaches_every_destination_and_shows_no_credential(api: Api, mails: MailServer) -> None:
    async with receiver() as slack, receiver() as webhook:
        to = [
            {"slack": f"{slack.url}&token=t1"},
            {"webhook": f"{webhook.url}&token=t2", "secret": SECRET},
            {"mail": ["ops@shop.example", "gone@shop.example"]},
        ]
        mails.refused.add("gone@shop.example")
        shown = await put(api, to=to)
        for text in (str(shown), (await api.http.get("/api/audit")).text):
            assert "t1" not in text
            assert "t2" not in text
            assert SECRET not in text
        assert shown["to"][1] == {"webhook": webhook.url.replace("key=k1", "…"), "has_secret": True}
        status, answer = await api.call("POST", "/api/notices/n/test")
        assert status == 202
        (told,) = await slack.until(1)
        assert json.loads(told.body)["text"].startswith("*[jqmaster] Test of notice n*")
        assert "webhook-signature" not in told.fields
        (told,) = await webhook.until(1)
        assert told.is_signed_with(SECRET)
        assert (told.message["type"], told.message["data"]["message_id"]) == (
            "notice.test",
            answer["message_id"],
        )
        ((address, mail),) = await mails.until(1)
        assert (address, mail["Subject"]) == ("ops@shop.example", "[jqmaster] Test of notice n")

        async def states() -> list[str] | None:
            found = sorted(one["state"] for one in await deliveries(api))
            return found if "running" not in found and "ready" not in found else None

        assert await wait_until(states) == ["failed", "succeeded", "succeeded", "succeeded"]
        # A notice that is sent back as it is shown keeps its receivers and takes the new secret.
        shown["to"][1]["secret"] = FORMER_SECRET
        await put(api, to=shown["to"])
        assert (await api.call("POST", "/api/notices/n/test"))[0] == 202
        await slack.until(2)
        _, second = await webhook.until(2)
        assert second.path.endswith("&token=t2")
        assert second.is_signed_with(FORMER_SECRET)
        assert not second.is_signed_with(SECRET)


async def test_a_replaced_address_is_called_by_what_waited(api: Api) -> None:
    async with receiver(Answer(500)) as former, receiver() as other:
        await put(api, to=[{"slack": former.url}])
        await api.call("POST", "/api/notices/n/test")
        await former.until(1)
        (delivery,) = await deliveries(api)
        await api.until_state(delivery["id"], "retrying")
        await put(api, to=[{"slack": other.url}])
        assert (await api.call("POST", f"/api/jobs/{delivery['id']}/run"))[0] == 200
        await other.until(1)
        assert len(former.received) == 1
        await put(api, to=[{"mail": ["ops@shop.example"]}])


async def test_a_deleted_notice_sends_nothing_more(api: Api) -> None:
    async with receiver(Answer(500)) as to:
        await put(api, to=[{"slack": to.url}])
        await api.call("POST", "/api/notices/n/test")
        await to.until(1)
        (delivery,) = await deliveries(api)
        await api.until_state(delivery["id"], "retrying")
        assert (await api.call("DELETE", "/api/notices/n"))[0] == 204
        assert (await api.call("POST", f"/api/jobs/{delivery['id']}/run"))[0] == 200
        await api.until_state(delivery["id"], "failed")
        assert len(to.received) == 1


async def test_private_addresses_are_not_called(api: Api) -> None:
    await put(api, to=[{"slack": "http://192.168.7.7/hook"}])
    await api.call("POST", "/api/notices/n/test")

    async def failed() -> bool:
        return [one["state"] for one in await deliveries(api)] == ["failed"]

    await wait_until(failed)


async def test_without_a_mail_server_no_mail_is_promised(store_server: StoreServer) -> None:
    async with master_on(store_server.url) as (_, api):
        status, problem = await api.call("PUT", "/api/notices/n", MAIL)
        assert (status, problem["code"]) == (422, "mail_off")
        webhook = {**MAIL, "to": [{"webhook": "https://x.example/"}]}
        status, problem = await api.call("PUT", "/api/notices/n", webhook)
        assert (status, problem["code"]) == (422, "webhooks_off")


@pytest.mark.req("P10", "M5")
async def test_a_mail_reminds_people_and_leads_to_the_page_where_they_answer(
    store_server: StoreServer, mails: MailServer
) -> None:
    settings: dict[str, Any] = {
        "smtp_url": f"smtp://127.0.0.1:{mails.port}",
        "mail_from": "jq@shop.example",
        "public_url": "https://jobs.example.org/queue",
        "tokens": ["admin:token-a"],
    }
    async with master_on(store_server.url, **settings) as (_, api):
        api.http.headers["authorization"] = "Bearer token-a"
        await put(api, when="challenge_waiting")
        async with puller_at(api) as worker:
            # Questions from before the first evaluation do not count.
            await wait_until_looked(api, "challenge_waiting")
            await api.enqueue("work")
            (job,) = await worker.claim()
            request = {
                "job_id": job["job_id"], "token": job["token"], "timeout_s": 600.0, "remind_after_s": 0.1,
                "form": {"title": "Refund <order> 42?"},
            }  # fmt: skip
            status, opened = await api.call("POST", f"/api/workers/{worker.id}/challenges", request)
            assert status == 201, opened
            await worker.end(job, "challenged", request_id=opened["request_id"])
            _, (address, mail) = await mails.until(2)
            assert (address, mail["Subject"]) == (
                "ops@shop.example", "[jqmaster] 1 question waits for an answer",
            )  # fmt: skip
            url = f"https://jobs.example.org/queue/callbacks/{opened['request_id']}"
            assert opened["callback_url"] == url
            text, html = (mail.get_body((kind,)) for kind in ("plain", "html"))
            assert text is not None
            assert html is not None
            assert "work: Refund <order> 42?, until " in text.get_content()
            assert url in "".join(text.get_content().splitlines())
            assert "Refund &lt;order&gt; 42?" in html.get_content()
            # The address is a credential: no view of the delivery or of the challenge shows it.
            (delivery,) = await deliveries(api)
            for path in (
                f"/api/jobs/{delivery['id']}",
                f"/api/jobs/{job['job_id']}/challenges",
                "/api/notices/n",
            ):
                assert opened["request_id"].encode() not in (await api.http.get(path)).content
            (challenge,) = (await api.call("GET", "/api/challenges"))[1]["challenges"]
            assert challenge["remind_at"] is not None
            answered = await api.http.post(f"/callbacks/{opened['request_id']}", json={"choice": "approve"})
            assert answered.status_code == 202


async def test_a_password_of_the_mail_server_is_replaced_and_shown_nowhere(
    store_server: StoreServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A mail that the old password could not send goes out after a restart with the new one."""
    authority, shard = Authority(tmp_path), f"mail{new_id()[:8]}"
    former, new = "the-former-password", "the-new-password"

    def settings(password: str, port: int) -> dict[str, Any]:
        return {
            "smtp_url": f"smtp://jq:{password}@127.0.0.1:{port}",
            "smtp_cafile": authority.cafile,
            "mail_from": "jq@shop.example",
            "shard": shard,
        }

    async with mail_server(authority=authority, users={"jq": new}) as server:
        async with master_on(store_server.url, **settings(former, server.port)) as (_, api):
            await put(api)
            assert (await api.call("POST", "/api/notices/n/test"))[0] == 202

            async def waits() -> str:
                found = await deliveries(api)
                return str(found[0]["id"]) if found and found[0]["state"] == "retrying" else ""

            delivery_id = await wait_until(waits, timeout_s=30)
            job = await api.job(delivery_id)
            assert "the mail server refuses the login" in str(job["attempts"])
            shown = [
                str(job),
                (await api.http.get("/api/settings")).text,
                (await api.http.get("/api/audit")).text,
            ]
            assert server.mails == []
        async with master_on(store_server.url, **settings(new, server.port)) as (_, api):
            await api.call("POST", f"/api/jobs/{delivery_id}/run")
            ((address, _),) = await server.until(1)
            assert address == "ops@shop.example"
            await api.until_state(delivery_id, "succeeded")
            shown += [
                str(await api.job(delivery_id)),
                (await api.http.get("/api/settings")).text,
                caplog.text,
            ]
    for text in shown:
        assert former not in text
        assert new not in text
