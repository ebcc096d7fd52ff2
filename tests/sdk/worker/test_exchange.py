"""Pushes, orders and registration: each way that exchanges between a master and a worker can fail."""

import asyncio
import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgpack
import pytest

from tests.sdk.fake_master import MSGPACK, FakeMaster, new_id, sign, unpack
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk import Worker
from worker_sdk.testing.challenges import KeptChallenges
from worker_sdk.transport.signature import SignatureCheck

pytestmark = real_time.WORKER


@pytest.fixture
def ran(worker: Worker) -> list[Any]:
    """Return the arguments of calls to `note`."""
    got: list[Any] = []

    @worker.handler("note")
    async def note(argument: Any) -> None:
        got.append(argument)

    return got


@pytest.fixture
def gate(worker: Worker) -> asyncio.Event:
    """Return the event that ends `hold`."""
    opened = asyncio.Event()

    @worker.handler("hold")
    async def hold(argument: Any) -> str:
        await opened.wait()
        return "held"

    return opened


# --- offers


@pytest.mark.req("J10")
async def test_many_jobs_of_one_push_run_and_are_reported_together(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any], worker: Worker
) -> None:
    worker.max_jobs = 200
    await up()
    jobs = [master.dispatch("note", n) for n in range(200)]
    answer = await master.push(*jobs)
    assert answer == {"accepted": [job["job_id"] for job in jobs], "rejected": []}
    await wait_until(lambda: len(master.results) == 200)
    assert ran == list(range(200))
    assert master.count("/results") < 20


@pytest.mark.req("M6")
async def test_the_same_token_again_is_accepted_and_not_started_again(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any]
) -> None:
    await up()
    job = await master.run("note", "once")
    assert (await master.push(job, job))["accepted"] == [job["job_id"]] * 2
    await wait_until(lambda: master.result(job["job_id"]))
    await wait_until(lambda: master.beats[-1]["running"] == [])
    # This also holds after the job ended and was answered, and after the offer became too old for a new job.
    late = {**job, "not_after_ms": 0}
    assert (await master.push(late))["accepted"] == [job["job_id"]]
    assert ran == ["once"]
    assert len(master.results[job["job_id"]]) == 1


@pytest.mark.row(123)
async def test_a_full_worker_says_busy_and_takes_others_up_to_its_limit(
    master: FakeMaster, gate: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    jobs = [master.dispatch("hold") for _ in range(6)]
    answer = await master.push(*jobs)
    assert answer["accepted"] == [job["job_id"] for job in jobs[:4]]
    assert [r["reason"] for r in answer["rejected"]] == ["busy", "busy"]
    # The copy of a refused offer is refused too, because the master has since given the job to another worker.
    gate.set()
    await wait_until(lambda: len(master.results) == 4)
    assert (await master.push(jobs[5]))["rejected"][0]["reason"] == "busy"


@pytest.mark.row(122)
async def test_offers_are_judged_one_by_one(
    master: FakeMaster, ran: list[Any], gate: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    running = await master.run("hold")
    now_ms = master.now_ms()
    cases = {
        "unknown_name": [master.dispatch("nobody"), master.dispatch("note", phase="unknown")],
        "too_late": [
            master.dispatch("note", not_after_ms=now_ms - 1),
            # A local clock an hour behind store time would accept this one.
            master.dispatch("note", not_after_ms=int(time.time() * 1000)),
            master.dispatch("note", lease_until_ms=now_ms),
        ],
        "duplicate": [master.dispatch("hold", job_id=running["job_id"], fence=running["fence"])],
    }
    good = master.dispatch("note", "good")
    answer = await master.push(*[job for jobs in cases.values() for job in jobs], good)
    assert answer["accepted"] == [good["job_id"]]
    assert [(r["job_id"], r["reason"]) for r in answer["rejected"]] == [
        (job["job_id"], reason) for reason, jobs in cases.items() for job in jobs
    ]
    await wait_until(lambda: ran == ["good"])


async def test_an_offer_is_too_late_while_store_time_is_unknown() -> None:
    from worker_sdk.worker.admission import Admission
    from worker_sdk.worker.executor import Executor
    from worker_sdk.worker.identity import WorkerIdentity
    from worker_sdk.worker.lease import StoreClock
    from worker_sdk.worker.registry import Registry

    registry = Registry()
    registry.add("note", lambda argument: None)
    nothing: Any = None
    executor = Executor(
        max_jobs=1,
        settlements=nothing,
        starts=nothing,
        pushers=nothing,
        reports=nothing,
        challenges=KeptChallenges(),
        child_access=([], None),
    )
    admission = Admission(registry, executor, WorkerIdentity(asyncio.get_running_loop()), StoreClock())
    offer = {
        "job_id": new_id(), "attempt": 1, "token": "t", "fence": 1, "phase": "run", "name": "note", "argument": None,
        "timeout": 1, "not_after_ms": 2**62, "lease_until_ms": 2**62, "headers": {},
    }  # fmt: skip
    answer = admission.offer(1, [offer])
    assert (answer["accepted"], answer["rejected"][0]["reason"]) == ([], "too_late")


@pytest.mark.req("D2")
@pytest.mark.row(121)
async def test_orders_of_an_older_leader_are_refused(
    master: FakeMaster, ran: list[Any], gate: asyncio.Event, up: Callable[[], Any]
) -> None:
    await up()
    running = await master.run("hold")
    master.epoch += 5  # learned from a heartbeat
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 1)
    answer = await master.push(master.dispatch("note"), epoch=master.epoch - 1)
    assert [r["reason"] for r in answer["rejected"]] == ["stale_epoch"]
    old = {"token": running["token"], "epoch": master.epoch - 1}
    assert (await master.send("POST", f"/jobs/{running['job_id']}/cancel", old)).status_code == 409
    assert (await master.send("POST", "/drain", {"epoch": master.epoch - 1})).status_code == 409
    # A newer epoch is also learned from a push.
    await master.push(master.dispatch("note", "new"), epoch=master.epoch + 1)
    assert (await master.push(master.dispatch("note"), epoch=master.epoch))["rejected"][0][
        "reason"
    ] == "stale_epoch"
    await wait_until(lambda: ran == ["new"])
    gate.set()


async def test_a_malformed_push_starts_nothing(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any]
) -> None:
    await up()
    far_ms = master.now_ms() + 60_000
    good = master.dispatch("note", not_after_ms=far_ms, lease_until_ms=far_ms)
    bad: list[dict[str, Any]] = [
        {**good, "timeout": float("nan")},
        {**good, "timeout": 0},
        {**good, "timeout": True},
        {**good, "job_id": 7},
        {**good, "headers": None},
        {**good, "not_after_ms": "soon"},
        {k: v for k, v in good.items() if k != "argument"},
    ]
    own = {"worker_id": master.worker["worker_id"], "epoch": master.epoch, "store_time_ms": 0}
    bodies: list[Any] = [{**own, "jobs": [good, job]} for job in bad]
    bodies += [
        {**own, "jobs": [1]},
        {**own, "jobs": {}},
        {**own, "epoch": "x", "jobs": []},
        [],
        7,
        {"jobs": [good]},
    ]
    for body in bodies:
        assert (await master.send("POST", "/jobs", body)).status_code == 422, body
    assert ran == []
    await master.push(good)
    await wait_until(lambda: len(ran) == 1)


@pytest.mark.parametrize("end", ["closed", "reset"])
async def test_a_push_that_breaks_off_starts_nothing(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any], end: str
) -> None:
    """An aborted push does not change anything, whatever part has arrived. The whole push is accepted afterwards."""
    await up()
    job = master.dispatch("note", 1)
    own = {"worker_id": master.worker["worker_id"], "epoch": master.epoch, "store_time_ms": master.now_ms()}
    body = msgpack.packb({**own, "jobs": [job]})
    address = urlsplit(master.worker["url"])
    for part in (0, 1, len(body) // 2, len(body) - 1):
        signed = sign(
            secret=master.worker["secret"], method="POST", path="/jobs", worker_id=own["worker_id"],
            timestamp_ms=time.time_ns() // 1_000_000, nonce=secrets.token_urlsafe(16), body=body,
        )  # fmt: skip
        headers = {"Host": "w", "Content-Type": MSGPACK, "Content-Length": str(len(body)), **signed}
        head = "POST /jobs HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items()) + "\r\n"
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(head.encode() + body[:part])
        await writer.drain()
        if end == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        else:
            writer.write_eof()
            # It is refused, or closed without an answer.
            assert b" 200 " not in await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert (await master.push(job))["accepted"] == [job["job_id"]]
    await wait_until(lambda: ran)
    assert ran == [1]


# --- who may call


@pytest.mark.req("D18")
@pytest.mark.row(119, 120)
async def test_a_caller_that_cannot_sign_starts_nothing(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any]
) -> None:
    await up()
    now_ms = time.time_ns() // 1_000_000

    def body() -> dict[str, Any]:
        return {
            "worker_id": master.worker["worker_id"], "epoch": master.epoch, "store_time_ms": 0,
            "jobs": [master.dispatch("note")],
        }  # fmt: skip

    nonce = secrets.token_urlsafe(16)
    assert (await master.send("POST", "/jobs", body(), nonce=nonce)).status_code == 200
    forgeries: list[dict[str, Any]] = [
        {"nonce": nonce},
        {"secret": "x" * 43},
        {"timestamp_ms": now_ms - 301_000},
        {"timestamp_ms": now_ms + 400_000},
        {"path": "/status"},
        {"path": "/jobs/"},
        {"signed_method": "GET"},
        {"worker_id": new_id()},
        {"sent_body": b"\x80"},
        {"headers": {"X-JQ-Worker": new_id()}},
        {"headers": {"X-JQ-Timestamp": str(now_ms + 1)}},
        {"headers": {"X-JQ-Timestamp": "1" * 500}},
        {"headers": {"X-JQ-Timestamp": "-1"}},
        {"headers": {"X-JQ-Nonce": "another-nonce"}},
        {"headers": {"X-JQ-Signature": "v1=" + "0" * 64}},
        {"headers": {"X-JQ-Signature": "v2=" + "0" * 64}},
        *({"headers": {h: ""}} for h in ("X-JQ-Worker", "X-JQ-Timestamp", "X-JQ-Nonce", "X-JQ-Signature")),
    ]
    for forgery in forgeries:
        response = await master.send("POST", "/jobs", body(), **forgery)
        assert (response.status_code, response.content) == (401, b""), forgery
    for method, route in (("GET", "/status"), ("POST", "/drain"), ("POST", f"/jobs/{new_id()}/cancel")):
        assert (await master.send(method, route, {}, secret="y" * 43)).status_code == 401
    await wait_until(lambda: len(master.results) == 1)
    assert ran == [None]


@pytest.mark.parametrize("off_s", [-86_400, 86_400])
async def test_a_refusal_because_of_the_clock_is_logged_once_a_minute(
    off_s: int, caplog: pytest.LogCaptureFixture
) -> None:
    now, here_s = [0.0], 1_795_238_645.0
    check = SignatureCheck(["s" * 32], wall_clock_s=lambda: here_s, now_s=lambda: now[0])
    headers = {
        name.lower().encode(): value.encode()
        for name, value in sign(
            secret="s" * 32, method="POST", path="/jobs", worker_id="w", nonce="n" * 16, body=b"",
            timestamp_ms=int((here_s + off_s) * 1000),
        ).items()
    }  # fmt: skip
    for now[0] in (0.0, 30.0, 59.0, 61.0):
        assert not check.may_be_valid(headers, "w")
    assert not check.may_be_valid(headers, "another")
    assert not check.may_be_valid({**headers, b"x-jq-timestamp": b"9" * 15}, "w")
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 2
    assert "this machine's 2026-11-21T05:24:05+00:00" in warnings[0]
    assert f"the master's clock says 2026-11-2{'0' if off_s < 0 else '2'}T05:24:05+00:00" in warnings[0]


async def test_a_registration_that_was_given_up_can_no_longer_prove_the_address(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any]
) -> None:
    """A master that stood still may go on with it after the worker has registered by another one."""
    master.script("workers", 503)
    await up()
    given_up, valid = [
        body["secret"] for method, path, body in master.calls if (method, path) == ("POST", "/api/workers")
    ]
    assert given_up != valid
    nonce = "n" * 16
    proof = unpack((await master.send("POST", "/challenge", {"nonce": nonce})).content)["proof"]
    assert proof == hmac.new(valid.encode(), nonce.encode(), hashlib.sha256).hexdigest()


async def test_an_old_secret_is_valid_while_it_rotates(master: FakeMaster, up: Callable[[], Any]) -> None:
    new, old = "n" * 43, "o" * 43
    worker = Worker(master.url, token=master.token, secret=[new, old], grace_s=0.1)
    worker.handler("note")(lambda argument: None)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        assert master.worker["secret"] == new
        for secret, status in ((new, 200), (old, 200), ("z" * 43, 401)):
            assert (await master.send("GET", "/status", secret=secret)).status_code == status
    with pytest.raises(ValueError, match="32 to 128"):
        Worker(secret="short")


async def test_a_challenge_signs_nothing_that_could_be_a_request(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any]
) -> None:
    await up()
    forged = f"POST\n/jobs\n{master.worker['worker_id']}\n{int(time.time() * 1000)}\nabcdefgh\n{'0' * 64}"
    for nonce in (forged, "short", "x" * 129, "with space in it here", "n" * 16 + "\n", 7, None, b"n" * 20):
        assert (await master.send("POST", "/challenge", {"nonce": nonce})).status_code == 422
    assert (await master.send("POST", "/challenge", [1])).status_code == 422
    assert (await master.send("POST", "/challenge", {"nonce": "n" * 5000})).status_code == 413
    assert (await master.send("POST", "/challenge", {"nonce": "n" * 16})).status_code == 200


@pytest.mark.row(124, 126)
async def test_everything_else_is_answered_empty(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_MARKER", "hunter2")
    await up()
    url = master.worker["url"]
    async with httpx.AsyncClient(trust_env=False) as client:
        for path in (
            "/",
            "/jobs/",
            "/jobs/x",
            "/jobs//cancel",
            "/jobs/a/b/cancel",
            "/status/",
            "//status",
            "/docs",
            "/PING",
        ):
            for method in ("GET", "POST", "OPTIONS", "TRACE"):
                response = await client.request(method, url + path)
                assert (response.status_code, response.content) == (404, b""), (method, path)
        routes = {"/jobs": "POST", "/status": "GET", "/ping": "GET", "/drain": "POST", "/challenge": "POST",
                  "/jobs/x/cancel": "POST"}  # fmt: skip
        for path, allowed in routes.items():
            for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND"} - {
                allowed
            }:
                response = await client.request(method, url + path)
                assert (response.status_code, response.content) == (405, b""), (method, path)
                assert response.headers["allow"] == allowed
                assert "server" not in response.headers
        ping = await client.get(url + "/ping")
        assert (ping.status_code, ping.content) == (204, b"")


@pytest.mark.row(125)
async def test_bodies_are_capped_typed_and_parsed_after_the_signature(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any], worker: Worker
) -> None:
    await up()

    # Call the application directly, because a client would see a reset before the answer.
    signed = sign(
        secret=master.worker["secret"], method="POST", path="/jobs", worker_id=master.worker["worker_id"],
        timestamp_ms=time.time_ns() // 1_000_000, nonce=secrets.token_urlsafe(16), body=b"",
    )  # fmt: skip
    for length, most_asked in ((None, 33), (str(33 << 20), 0)):
        fields = {**signed, "Content-Type": MSGPACK, **({"Content-Length": length} if length else {})}
        asked = 0
        answers: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            nonlocal asked
            asked += 1
            return {"type": "http.request", "body": bytes(1 << 20), "more_body": True}

        async def send(message: Any, answers: list[Any] = answers) -> None:
            answers.append(message)

        await worker.asgi()(
            {
                "type": "http", "method": "POST", "path": "/jobs",
                "headers": [(k.lower().encode(), v.encode()) for k, v in fields.items()],
            },
            receive, send,
        )  # fmt: skip
        assert answers[0]["status"] == 413
        assert asked <= most_asked
    assert (
        await master.send("POST", "/jobs", {}, headers={"Content-Type": "application/json"})
    ).status_code == 415
    for data in (b"\xc1", b"\xdd\xff\xff\xff\xff", b"\x91" * 2000, b"\x81\xa1a", b"\x80\x80"):
        response = await _send_raw(master, data)
        assert response.status_code == 400, data[:8]
    assert ran == []


async def _send_raw(master: FakeMaster, data: bytes) -> httpx.Response:
    headers = sign(
        secret=master.worker["secret"], method="POST", path="/jobs", worker_id=master.worker["worker_id"],
        timestamp_ms=time.time_ns() // 1_000_000, nonce=secrets.token_urlsafe(16), body=data,
    )  # fmt: skip
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(
            master.worker["url"] + "/jobs", content=data, headers={**headers, "Content-Type": MSGPACK}
        )


async def test_status_tells_what_runs(
    master: FakeMaster, gate: asyncio.Event, ran: list[Any], up: Callable[[], Any]
) -> None:
    await up()
    job = await master.run("hold")
    assert unpack((await master.send("GET", "/status")).content) == {
        "worker_id": master.worker["worker_id"],
        "running": [{"job_id": job["job_id"], "token": job["token"]}],
        "free": 3,
        "max_jobs": 4,
        "names": ["hold", "note"],
        "draining": False,
    }
    gate.set()


# --- membership


@pytest.mark.req("M7")
async def test_a_worker_registers_the_port_that_it_really_has(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any], worker: Worker
) -> None:
    worker.labels = {"zone": "a"}
    await up()
    spec = master.worker
    assert spec["url"] == worker.address
    assert spec["url"].startswith("http://127.0.0.1:")
    assert not spec["url"].endswith(":0")
    assert (spec["names"], spec["max_jobs"], spec["labels"]) == (["note"], 4, {"zone": "a"})
    assert 32 <= len(spec["secret"]) <= 128


async def test_a_worker_waits_for_a_master_that_is_not_up_yet(
    master: FakeMaster, ran: list[Any], worker: Worker
) -> None:
    master.stop()
    async with worker.running():
        assert worker.worker_id is None
        master.start()
        await wait_until(lambda: worker.worker_id)
        await master.run("note", 1)
        await wait_until(lambda: ran == [1])


async def test_the_next_master_of_the_list_is_asked_when_one_is_down(master: FakeMaster) -> None:
    other = FakeMaster()
    other.workers = master.workers
    try:
        worker = Worker([other.url, master.url], token=master.token, grace_s=0.1)

        @worker.handler("note")
        async def note(argument: Any) -> int:
            return 1

        async with worker.running():
            await wait_until(lambda: other.beats)
            assert not master.beats
            other.stop()
            job = await master.run("note")
            await wait_until(lambda: master.result(job["job_id"]))
            await wait_until(lambda: master.beats)
    finally:
        other.close()


@pytest.mark.req("M7")
async def test_a_worker_that_nobody_knows_stops_its_jobs_and_joins_again(
    master: FakeMaster, gate: asyncio.Event, ran: list[Any], up: Callable[[], Any], worker: Worker
) -> None:
    await up()
    job = await master.run("hold")
    old = master.worker["worker_id"]
    del master.workers[old]
    await wait_until(lambda: worker.worker_id not in (None, old))
    await master.run("note", "again")
    await wait_until(lambda: ran == ["again"])
    gate.set()
    await wait_until(lambda: master.beats[-1] == {"running": [], "free": 4})
    assert master.result(job["job_id"]) is None


@pytest.mark.req("D13")
async def test_a_detached_worker_asks_again_before_it_believes_it(
    master: FakeMaster, gate: asyncio.Event, up: Callable[[], Any], worker: Worker
) -> None:
    await up()
    job = await master.run("hold")
    old = worker.worker_id
    told = 0

    def beat(body: Any) -> None:
        nonlocal told
        told += master.detached
        if told == 2:  # an error corrected in time
            master.detached = False

    master.hooks["heartbeat"] = beat
    master.detached = True
    await wait_until(lambda: not master.detached)
    beats = len(master.beats)
    await wait_until(lambda: len(master.beats) > beats + 3)
    assert worker.worker_id == old
    master.detached = True
    told = 10
    await wait_until(lambda: worker.worker_id not in (None, old))
    master.detached = False
    gate.set()
    await wait_until(lambda: master.beats[-1]["running"] == [])
    assert master.result(job["job_id"]) is None


async def test_a_push_that_overtakes_the_answer_to_the_registration_is_served(
    master: FakeMaster, ran: list[Any], worker: Worker
) -> None:
    """The master knows the worker just before the worker knows its ID."""
    pushed: list[asyncio.Task[Any]] = []
    loop = asyncio.get_running_loop()
    original = master._register

    async def register(body: Any) -> Any:
        answer = await original(body)
        loop.call_soon_threadsafe(lambda: pushed.append(asyncio.ensure_future(master.run("note", "early"))))
        await asyncio.sleep(0.1)
        return answer

    master._register = register  # type: ignore[method-assign]
    async with worker.running():
        await wait_until(lambda: pushed)
        await pushed[0]
        await wait_until(lambda: ran == ["early"])


@pytest.mark.req("D14")
@pytest.mark.row(123)
async def test_a_drained_worker_refuses_and_resumes(
    master: FakeMaster, ran: list[Any], up: Callable[[], Any]
) -> None:
    await up()
    master.drain = True
    assert (await master.send("POST", "/drain", {})).status_code == 200
    assert (await master.push(master.dispatch("note")))["rejected"][0]["reason"] == "draining"
    await wait_until(lambda: master.beats[-1]["free"] == 0)
    master.drain = False
    await wait_until(lambda: master.beats[-1]["free"] == 4)
    await master.run("note", 1)
    await wait_until(lambda: ran == [1])


@pytest.mark.req("M7")
async def test_workers_run_side_by_side(master: FakeMaster) -> None:
    workers = [Worker(master.url, token=master.token, grace_s=0.1) for _ in range(3)]
    for worker in workers:
        worker.handler("note")(lambda argument: argument)
    async with workers[0].running(), workers[1].running(), workers[2].running():
        await wait_until(lambda: len(master.workers) == 3)
        assert len({spec["url"] for spec in master.workers.values()}) == 3
    assert master.workers == {}, "an orderly leave"
