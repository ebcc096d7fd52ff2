"""The rights to send events, and to see their content."""

import pytest

from tests.api.events.test_events import define, send
from tests.api.identity.test_sessions import guarded
from tests.api.identity.test_tokens import create
from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer

pytestmark = [pytest.mark.req("D9", "D18"), real_time.MASTER]


@pytest.mark.rule("E1.3")
async def test_a_token_for_some_names_sends_events_of_such_types(store_server: StoreServer) -> None:
    async with guarded(store_server.url) as (master, admin):
        await define(admin, event_type="*")
        made = await create(admin, "push", names=["order.*"])
        api = Api(master.server.url, made["token"])
        assert len((await send(api, "order.paid"))["job_ids"]) == 1
        for body in (
            {"event_type": "user.made"},
            {"events": [{"event_type": "order.paid"}, {"event_type": "user.made"}]},
        ):
            status, problem = await api.call("POST", "/api/events", body)
            assert (status, problem["code"]) == (403, "name_forbidden")
        event_id = (await admin.call("GET", "/api/events"))[1]["events"][0]["event_id"]
        assert (await api.call("GET", "/api/events"))[0] == 403
        assert (await api.call("POST", f"/api/events/{event_id}/replay"))[0] == 403
        assert len((await admin.call("GET", "/api/events"))[1]["events"]) == 1
        reader = Api(master.server.url, (await create(admin, "read"))["token"])
        _, view = await reader.call("GET", f"/api/events/{event_id}")
        assert (view["payload"], view["payload_hidden"], view["payload_bytes"]) == (None, True, 1)
        # A preview does not let anybody guess a payload by trying matchers.
        draft = {"kind": "event", "event_type": "*"}
        for matcher, matches in ((None, True), ({"field": "payload", "op": "eq", "value": None}, None)):
            _, preview = await reader.call("POST", "/api/definitions/preview", {**draft, "matcher": matcher})
            (one,) = preview["events"]
            assert (one["matches"], one["argument"], one["argument_hidden"]) == (matches, None, True)
        assert (await reader.call("POST", "/api/events", {"event_type": "a"}))[0] == 403
        await api.http.aclose()
        await reader.http.aclose()


async def test_redacted_parts_are_redacted_in_payloads_and_stay_when_sent_back(
    store_server: StoreServer,
) -> None:
    async with master_on(store_server.url) as (_, api):
        matcher = {"field": "payload.secret", "op": "eq", "value": "s"}
        argument = {"secret": "literal", "all": {"from": "payload"}}
        made = await define(api, matcher=matcher, argument=argument)
        redact = {"redact_paths": ["argument.secret"]}
        assert (await api.call("PATCH", "/api/settings", redact))[0] == 200
        _, view = await api.call("GET", "/api/definitions/ship")
        assert view["matcher"]["value"] == "[redacted]"
        assert view["argument"] == {"secret": "[redacted]", "all": {"from": "payload"}}
        same = await define(api, matcher=view["matcher"], argument=view["argument"])
        assert same["etag"] == made["etag"]
        answer = await send(api, payload={"secret": "s", "open": 1})
        assert len(answer["job_ids"]) == 1
        _, shown = await api.call("GET", f"/api/events/{answer['event_id']}")
        assert (shown["payload"], shown["payload_redacted"]) == ({"secret": "[redacted]", "open": 1}, True)
        draft = {
            "kind": "event",
            "event_type": "*",
            "matcher": {"field": "payload.secret", "op": "glob", "value": "s*"},
        }
        _, preview = await api.call("POST", "/api/definitions/preview", draft)
        assert [(one["matches"], one["argument"]) for one in preview["events"]] == [
            (None, {"secret": "[redacted]", "open": 1})
        ]
        _, log = await api.call("GET", "/api/audit?target=ship")
        assert log["entries"][0]["after"]["matcher"]["value"] == "[redacted]"
        body = {"kind": "event", "event_type": "order.*", "job": {"name": "ship"}}
        for fields, loc in (
            ({"matcher": matcher}, ["matcher", "field"]),
            ({"argument": {"open": {"from": "payload.secret"}}}, ["argument", "open", "from"]),
            ({"argument": {"all": {"from": "payload"}}}, ["argument", "all", "from"]),
            ({"collect": {"max": 2, "within_s": 1, "key": "payload.secret"}}, ["collect", "key"]),
        ):
            status, problem = await api.call("PUT", "/api/definitions/other", {**body, **fields})
            assert (status, problem["code"], problem["errors"][0]["loc"]) == (403, "content_redacted", loc)
        # The value is redacted at its own path as well.
        await define(api, "other", argument={"secret": {"from": "payload.secret"}})
