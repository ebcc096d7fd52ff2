"""docs/worker_protocol.md: its vectors are correct, and its worker works."""

import asyncio
import contextlib
import hashlib
import hmac
import os
import re
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sdk.fake_master import FakeMaster, sign, unpack
from tests.support import real_time
from tests.support.waiting import wait_until
from worker_sdk.transport.signature import SignatureCheck

pytestmark = real_time.WORKER

TEXT = (Path(__file__).parents[3] / "docs" / "worker_protocol.md").read_text()


[PROGRAM] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def told(field: str, nth: int = 0) -> str:
    return re.findall(rf"^{re.escape(field)} +(\S+)$", TEXT, re.MULTILINE)[nth]


def test_the_vectors_are_right() -> None:
    secret = told("secret")
    assert SignatureCheck([secret]).prove(told("nonce")) == told("proof")
    headers = sign(
        secret=secret, method=told("method"), path=told("path"), worker_id=told("worker ID"),
        timestamp_ms=int(told("timestamp")), nonce=told("nonce", 1), body=bytes.fromhex(told("body (hex)")),
    )  # fmt: skip
    assert headers["X-JQ-Signature"] == told("signature")
    check = SignatureCheck([secret], wall_clock_s=lambda: int(told("timestamp")) / 1000)
    fields = {name.lower().encode(): value.encode() for name, value in headers.items()}
    body = bytes.fromhex(told("body (hex)"))
    assert check.may_be_valid(fields, told("worker ID"))
    assert check.is_valid(told("method"), told("path"), fields, told("worker ID"), body)
    assert not check.is_valid(told("method"), told("path"), fields, told("worker ID"), body), "a repeat"


@pytest.mark.req("J10")
@pytest.mark.req("J11")
async def test_the_worker_of_the_document_works(master: FakeMaster, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    nap = f'"nap": lambda _: [time.sleep(0.01) for _ in iter(lambda: os.path.exists({str(gate)!r}), True)]'
    assert PROGRAM.count("HANDLERS = {") == 1
    (tmp_path / "example.py").write_text(PROGRAM.replace("HANDLERS = {", f"HANDLERS = {{{nap}, "))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "example.py",
        cwd=tmp_path,
        env={**os.environ, "MASTER": master.url, "TOKEN": master.token},
    )
    try:
        await wait_until(lambda: master.beats)
        job = await master.run("text.upper", "quiet")
        assert (await master.push(job))["accepted"] == [job["job_id"]]
        assert (await wait_until(lambda: master.result(job["job_id"])))["result"] == "QUIET"
        bad = await master.run("text.upper", 7)
        assert (await wait_until(lambda: master.result(bad["job_id"])))["should_retry"] is True
        answer = await master.push(
            master.dispatch("nobody"), master.dispatch("text.upper", not_after_ms=master.now_ms() - 1)
        )
        assert [r["reason"] for r in answer["rejected"]] == ["unknown_name", "too_late"]
        assert (await master.push(master.dispatch("text.upper"), epoch=1))["rejected"][0][
            "reason"
        ] == "stale_epoch"
        assert (await master.send("POST", "/jobs", {}, secret="x" * 40)).status_code == 401
        nonce = "n" * 20
        assert (await master.send("GET", "/status", nonce=nonce)).status_code == 200
        assert (await master.send("GET", "/status", nonce=nonce)).status_code == 401
        assert unpack((await master.send("GET", "/status")).content)["names"] == ["nap", "text.upper"]
        await wait_until(lambda: master.beats[-1] == {"running": [], "free": 4})
        # A lost job is no longer named, but holds its slot until its thread ends.
        nap_job = await master.run("nap")
        master.lost = {nap_job["token"]}
        await wait_until(lambda: master.beats[-1] == {"running": [], "free": 3})
        again = master.dispatch("nap", job_id=nap_job["job_id"])
        assert (await master.push(again))["rejected"][0]["reason"] == "duplicate"
        gate.touch()
        await wait_until(lambda: master.beats[-1] == {"running": [], "free": 4})
        assert master.result(nap_job["job_id"]) is None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def test_its_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER", "http://127.0.0.1:1")
    functions, _, _ = PROGRAM.partition("server = ")
    names: dict[str, Any] = {}
    exec(functions, names)
    now_s = 1_000.0
    names["time"] = SimpleNamespace(monotonic=lambda: now_s, time=time.time)
    names["registered"].set()
    names["me"].update(id="w", lease_s=15.0)

    def offer(token: str) -> str:
        job = {"token": token, "job_id": "j", "name": "nobody", "phase": "run"}
        return str(names["offer"]({"epoch": 1, "jobs": [job]})["rejected"][0]["reason"])

    def is_signed(nonce: str) -> bool:
        headers = sign(
            secret=names["SECRET"], method="POST", path="/jobs", worker_id="w",
            timestamp_ms=int(time.time() * 1000), nonce=nonce, body=b"",
        )  # fmt: skip
        request = SimpleNamespace(command="POST", path="/jobs", headers=headers)
        return bool(names["Endpoint"].is_signed(request, b""))

    for n in range(3):
        assert offer(f"t{n}") == "unknown_name"
        assert is_signed(f"nonce-{n}")
        now_s += 39
    names["me"]["epoch"] = 2
    assert offer("t2") == "unknown_name", "as it was the first time"
    assert offer("t0") == "stale_epoch", "it would be judged anew"
    assert list(names["seen"]) == ["t2", "t0"]
    assert not is_signed("nonce-0")
    now_s += 600
    assert is_signed("nonce-3")
    assert list(names["nonces"]) == ["nonce-3"]
    names["nonces"].update({str(n): (now_s,) for n in range(100_000)})
    assert not is_signed("nonce-4"), "full: refused, not forgotten"


def test_the_proof_is_a_plain_hmac() -> None:
    proof = hmac.new(told("secret").encode(), told("nonce").encode(), hashlib.sha256).hexdigest()
    assert proof == told("proof")
