"""Links that leave a namespace, in mails and messages, lead back to it and not to `default`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.api.notices.test_notices import wait_until_looked
from tests.support import real_time
from tests.support.mail_server import mail_server
from tests.support.namespaces import installed
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer
from tests.support.webhook_receiver import receiver

pytestmark = [pytest.mark.req("D29", "M5"), real_time.MASTER]

PUBLIC = "https://jobs.example.org/queue"
HERE = f"{PUBLIC}/ns/shop/"
MAIL: dict[str, Any] = {"mail": ["ops@shop.example"]}


def links_in(text: str) -> set[str]:
    return set(re.findall(rf"{PUBLIC}[^\s\"'<>|)]*", text))


async def test_mails_and_messages_of_a_namespace_lead_to_it(
    store_server: StoreServer, other: StoreServer, tmp_path: Path
) -> None:
    async with mail_server() as mails, receiver() as slack:
        settings: dict[str, Any] = {
            "smtp_url": f"smtp://127.0.0.1:{mails.port}",
            "mail_from": "jq@shop.example",
            "allowed_webhook_networks": "127.0.0.0/8",
            "public_url": PUBLIC,
            "tokens": ["admin:token-a"],
            "token": "token-a",
        }
        async with installed(store_server, other, tmp_path, **settings) as one:
            await one.put("shop", "b")
            await one.until_served("shop")
            shop = one.api("shop")
            failed = {"when": "job_failed", "to": [MAIL, {"slack": slack.url}]}
            asked = {"when": "challenge_waiting", "to": [MAIL]}
            for name, notice in (("failed", failed), ("asked", asked)):
                assert (await shop.call("PUT", f"/api/notices/{name}", notice))[0] == 201
            async with puller_at(shop) as worker:
                for when in ("job_failed", "challenge_waiting"):
                    await wait_until_looked(shop, when)
                failing = await shop.enqueue("work", max_retry=0)
                (job,) = await worker.claim()
                await worker.end(job, "failure", reason="other", should_retry=False, message="x", error=None)
                asking = await shop.enqueue("work")
                (job,) = await worker.claim()
                question = {
                    "job_id": asking, "token": job["token"], "timeout_s": 600.0, "remind_after_s": 0.1,
                    "form": {"title": "Refund?"},
                }  # fmt: skip
                status, opened = await shop.call("POST", f"/api/workers/{worker.id}/challenges", question)
                assert status == 201, opened
                await worker.end(job, "challenged", request_id=opened["request_id"])
                # Two mails are those of `wait_until_looked`.
                sent = await mails.until(4)
                (told,) = await slack.until(1)
            assert opened["callback_url"] == f"{HERE}callbacks/{opened['request_id']}"
            texts = [json.loads(told.body)["text"]]
            for _, mail in sent:
                for kind in ("plain", "html"):
                    body = mail.get_body((kind,))
                    assert body is not None
                    texts.append("".join(body.get_content().splitlines()))
            found = {link for text in texts for link in links_in(text)}
            assert all(link.startswith(HERE) for link in found), found
            for link in (f"{HERE}#/job?id={failing}", opened["callback_url"]):
                assert any(one.startswith(link) for one in found), (link, found)
            # A link with the namespace leads there.
            answered = await one.api().http.post(
                f"/ns/shop/callbacks/{opened['request_id']}", json={"choice": "approve"}
            )
            assert answered.status_code == 202
