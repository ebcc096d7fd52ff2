"""docs/worker_protocol.md: its vectors are right, and its worker works."""

import asyncio
import contextlib
import hashlib
import hmac
import os
import re
import sys
from pathlib import Path

import pytest

from tests.sdk.fake_master import FakeMaster, sign, unpack
from tests.support.waiting import wait_until
from worker_sdk.signature import SignatureCheck

TEXT = (Path(__file__).parents[2] / "docs" / "worker_protocol.md").read_text()


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
    [program] = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "example.py").write_text(program)
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
        assert unpack((await master.send("GET", "/status")).content)["names"] == ["text.upper"]
        await wait_until(lambda: master.beats[-1]["running"] == [])
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def test_the_proof_is_a_plain_hmac() -> None:
    proof = hmac.new(told("secret").encode(), told("nonce").encode(), hashlib.sha256).hexdigest()
    assert proof == told("proof")
