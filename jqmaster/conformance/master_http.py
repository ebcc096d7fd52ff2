"""Encodings, problems and limits of a master."""

import json
from typing import Final

from jqmaster.conformance.master_under_test import MasterUnderTest
from jqmaster.conformance.questions import Questions, expect
from jqmaster.conformance.wire import JSON, MSGPACK, decode, encode, media_type, new_id

TOPIC: Final[Questions[MasterUnderTest]] = Questions("http")
_PROBLEM: Final = "application/problem+json"


@TOPIC.question("health", "GET /healthz and /readyz are answered 200")
async def _(master: MasterUnderTest) -> None:
    for path in ("/healthz", "/readyz"):
        status, answer = await master.ask("GET", path)
        expect(status == 200, f"{path} was answered {status}: {answer}")


@TOPIC.question("contract", "GET /openapi.json is the OpenAPI document, and lists the codes of problems")
async def _(master: MasterUnderTest) -> None:
    status, document = await master.ask("GET", "/openapi.json", kind=JSON)
    expect(status == 200 and document["openapi"].startswith("3."), f"answered {status}")
    expect("unknown_worker" in document["components"]["schemas"]["ProblemCode"]["enum"], "no enum of codes")


@TOPIC.question(
    "json",
    ("if Accept names neither type, a JSON body is answered in JSON and a MessagePack body in MessagePack"),
)
async def _(master: MasterUnderTest) -> None:
    for kind in (JSON, MSGPACK):
        body = encode({"name": master.name, "priority": "x"}, kind)
        for fields in ({"Content-Type": kind}, {"Content-Type": kind, "Accept": "*/*"}):
            answer = await master.send("POST", "/api/jobs", body, fields)
            found = media_type(answer.fields)
            expect(answer.status == 422, f"answered {answer.status}")
            expect(found in (kind, _PROBLEM if kind == JSON else kind), f"{kind} was answered as {found}")


@TOPIC.question("accept", "Accept chooses the encoding of the answer")
async def _(master: MasterUnderTest) -> None:
    for sent, wanted in ((JSON, MSGPACK), (MSGPACK, JSON)):
        body = encode({"name": master.name}, sent)
        answer = await master.send("POST", "/api/jobs", body, {"Content-Type": sent, "Accept": wanted})
        expect(answer.status == 201, f"answered {answer.status}")
        expect(media_type(answer.fields) == wanted, f"answered as {media_type(answer.fields)}")
        master.pushed.append(decode(answer.body, wanted)["id"])


@TOPIC.question(
    "bare_get",
    (
        "a GET that names no type is answered in JSON, even with an error, because curl and "
        "browsers can show JSON"
    ),
)
async def _(master: MasterUnderTest) -> None:
    for fields in ({}, {"Accept": "*/*"}, {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}):
        answer = await master.send("GET", f"/api/jobs/{new_id()}", None, fields)
        expect(answer.status in (403, 404), f"answered {answer.status}")
        expect(media_type(answer.fields) == _PROBLEM, f"answered as {media_type(answer.fields)}")
        json.loads(answer.body)


@TOPIC.question("not_acceptable", "an Accept that names no type of the API is answered 406")
async def _(master: MasterUnderTest) -> None:
    answer = await master.send("GET", f"/api/jobs/{new_id()}/result", None, {"Accept": "image/png"})
    expect(answer.status == 406, f"answered {answer.status}")


@TOPIC.question("content_type", "a body without a type, or of another type, is answered 415, in JSON")
async def _(master: MasterUnderTest) -> None:
    for fields in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        answer = await master.send("POST", "/api/jobs", b'{"name": "x"}', fields)
        expect(answer.status == 415, f"{fields} was answered {answer.status}")
        expect(json.loads(answer.body)["code"] == "unsupported_media_type", "another code")


@TOPIC.question("broken", "a body that cannot be parsed is answered 400")
async def _(master: MasterUnderTest) -> None:
    for kind, body in (
        (JSON, b"{"),
        (JSON, b'{"a": 1, "a": 2}'),
        (MSGPACK, b"\x81\xa1"),
        (MSGPACK, b""),
        (MSGPACK, b'{"name": "x"}'),
    ):
        answer = await master.send("POST", "/api/jobs", body, {"Content-Type": kind})
        expect(answer.status == 400, f"{body!r} was answered {answer.status}")


@TOPIC.question("fields", "a 422 names each field and rule, and its detail names the first")
async def _(master: MasterUnderTest) -> None:
    problem = await master.refused(
        422, "invalid", "POST", "/api/jobs", {"name": master.name, "priority": "high", "no_such_field": 1}
    )
    found = {tuple(error["loc"]) for error in problem["errors"]}
    expect(found == {("priority",), ("no_such_field",)}, f"`errors` names {sorted(found)}")
    expect(problem["errors"][0]["msg"] in problem["detail"], f"`detail` is {problem['detail']!r}")


@TOPIC.question(
    "binary_text", ("text that is sent as MessagePack bin is refused, and the error says that it is binary")
)
async def _(master: MasterUnderTest) -> None:
    problem = await master.refused(422, "invalid", "POST", "/api/jobs", {"name": master.name.encode()})
    expect("bin" in problem["detail"], f"`detail` is {problem['detail']!r}")


@TOPIC.question("routes", "an unknown path is answered 404, another method 405 with Allow")
async def _(master: MasterUnderTest) -> None:
    await master.refused(404, "not_found", "GET", "/api/nothing")
    answer = await master.send("PUT", "/api/jobs", None, {"Accept": JSON})
    expect(
        answer.status == 405 and "POST" in answer.fields.get("allow", ""),
        f"answered {answer.status}, Allow: {answer.fields.get('allow')}",
    )


@TOPIC.question("request_id", "X-Request-ID comes back")
async def _(master: MasterUnderTest) -> None:
    answer = await master.send("GET", "/healthz", None, {"X-Request-ID": "conformance-1"})
    expect(
        answer.fields.get("x-request-id") == "conformance-1",
        f"X-Request-ID is {answer.fields.get('x-request-id')!r}",
    )


@TOPIC.question(
    "argument_limit",
    (
        "an argument over the limit is answered 413 argument_too_large, and a result over the "
        "limit 413 result_too_large"
    ),
)
async def _(master: MasterUnderTest) -> None:
    await master.refused(
        413, "argument_too_large", "POST", "/api/jobs", {"name": master.name, "argument": "x" * 2**21}
    )
    worker = await master.register()
    job = await worker.one(await master.push())
    item = {
        "job_id": job["job_id"],
        "token": job["token"],
        "finished_at": "2026-01-01T00:00:00Z",
        "type": "success",
        "result": "x" * 2**21,
    }
    await master.refused(
        413, "result_too_large", "POST", f"/api/workers/{worker.id}/results", {"results": [item]}
    )
    await worker.report(job)


@TOPIC.question("items_limit", "a bulk of more than 10,000 jobs is answered 413 too_many_items")
async def _(master: MasterUnderTest) -> None:
    await master.refused(
        413, "too_many_items", "POST", "/api/jobs/bulk", {"jobs": [{"name": master.name}] * 10_001}
    )


@TOPIC.question("json_only", "a worker may use JSON for all calls")
async def _(master: MasterUnderTest) -> None:
    body = {"url": None, "names": [master.name], "max_jobs": 1, "secret": "s" * 40}
    status, registered = await master.ask("POST", "/api/workers", body, kind=JSON)
    expect(status == 201, f"the registration was answered {status}")
    master.workers.append(registered["worker_id"])
    path = f"/api/workers/{registered['worker_id']}"
    job_id = await master.push({"n": [1, b"\x00"]}, keep_result=True)
    status, given = await master.ask("POST", f"{path}/claim", {"max": 1, "wait": 10}, kind=JSON)
    expect(status == 200 and given["jobs"], f"the call for jobs was answered {status}")
    (job,) = given["jobs"]
    expect(
        (job["job_id"], job["argument"]) == (job_id, {"n": [1, b"\x00"]}),
        f"the argument is {job['argument']!r}",
    )
    claim = {"job_id": job_id, "token": job["token"]}
    status, _ = await master.ask("POST", f"{path}/heartbeat", {"running": [claim], "free": 0}, kind=JSON)
    expect(status == 200, f"the heartbeat was answered {status}")
    item = {**claim, "finished_at": "2026-01-01T00:00:00Z", "type": "success", "result": {"$bin": "AAE="}}
    status, answer = await master.ask("POST", f"{path}/results", {"results": [item]}, kind=JSON)
    expect((status, answer.get("accepted")) == (200, [job_id]), f"the result was answered {status}: {answer}")
    status, result = await master.ask("GET", f"/api/jobs/{job_id}/result")
    expect(result["result"] == b"\x00\x01", f"the result is {result['result']!r}")
