"""A worker that no master takes says so, with the remedy, and ends in the end."""

import logging
from pathlib import Path

import pytest

from tests.sdk.fake_master import FakeMaster
from tests.support import real_time
from tests.support.cli import jqmaster
from tests.support.waiting import wait_until
from worker_sdk import RefusedError, Worker
from worker_sdk.masters.masters import MasterAnswer
from worker_sdk.worker import heartbeat, registration, report_queue
from worker_sdk.worker.refusals import advice

pytestmark = real_time.WORKER

UNVERIFIED = MasterAnswer(422, {"code": "address_unverified"})


def test_a_worker_on_loopback_learns_that_a_distant_master_cannot_reach_it() -> None:
    hint = advice(UNVERIFIED, "http://127.0.0.1:4711", "http://10.77.0.1:8080")
    assert "this worker listens on 127.0.0.1, which the master at http://10.77.0.1:8080 cannot reach" in hint
    assert "host='0.0.0.0'" in hint
    assert "pull=True" in hint
    assert advice(UNVERIFIED, "http://127.0.0.1:4711", "http://localhost:8080") == ""
    assert advice(UNVERIFIED, "http://10.77.0.2:4711", "http://10.77.0.1:8080") == (
        "; can the master at http://10.77.0.1:8080 reach http://10.77.0.2:4711? Give the worker an address that it can "
        "reach (url=…, --url or JQMASTER_WORKER_URL), or pull=True (--pull)"
    )
    assert "JQMASTER_TOKEN" in advice(MasterAnswer(401, {}), None, "http://10.77.0.1:8080")


def messages(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING)


async def test_a_refusal_is_logged_again_while_it_lasts(
    master: FakeMaster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (heartbeat, registration, report_queue):
        monkeypatch.setattr(module, "REPEAT_S", 0.2)
    master.hooks["workers"] = lambda body: (403, {"code": "forbidden"}, {})
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    worker.handler("x")(lambda argument: None)
    async with worker.running():
        await wait_until(lambda: messages(caplog, "refused the registration: 403") >= 3)
        assert messages(caplog, "scope work") >= 3
        del master.hooks["workers"]
        await wait_until(lambda: worker.worker_id)
        master.hooks["heartbeat"] = lambda body: (503, {"code": "store_unavailable"}, {})
        await wait_until(lambda: messages(caplog, "heartbeats are refused: 503") >= 3)


async def test_a_worker_that_was_never_registered_ends_when_its_token_stays_refused(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "GIVE_UP_S", 0.3)
    master.hooks["workers"] = lambda body: (401, {"code": "unauthorized"}, {})
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    worker.handler("x")(lambda argument: None)
    with pytest.raises(RefusedError, match="401"):
        await worker._serve_until_signal()


async def test_a_worker_that_was_registered_outlives_the_change_of_its_token(
    master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "GIVE_UP_S", 0.1)
    worker = Worker(master.url, token=master.token, grace_s=0.1)
    worker.handler("x")(lambda argument: None)
    async with worker.running():
        await wait_until(lambda: worker.worker_id)
        assert worker._node is not None
        master.hooks["heartbeat"] = lambda body: (404, {"code": "unknown_worker"}, {})
        master.hooks["workers"] = lambda body: (401, {"code": "unauthorized"}, {})
        before = master.count("/api/workers")
        await wait_until(lambda: master.count("/api/workers") > before + 4, timeout_s=30)
        assert worker._node.rejection is None
        master.hooks.clear()
        await wait_until(lambda: worker.worker_id)


def test_one_line_tells_what_keeps_a_worker_from_starting(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "from worker_sdk import Tasks, Worker\ntasks = Tasks()\nworker = Worker(port=1)\n"
        "worker.handler('x')(lambda argument: None)\n"
    )
    for arguments, code, words in [
        (["app:tasks"], 2, "--autodiscover"),
        (["app:worker", "--master", "127.0.0.1:9999"], 2, "not the address of a master"),
        (
            ["app:worker", "--master", "http://127.0.0.1:9999 http://a:b"],
            2,
            "not the address of a master: 'http://a:b'",
        ),
        (["app:worker", "--host", "203.0.113.9", "--port", "0"], 4, "not an address of this machine"),
    ]:
        done = jqmaster("worker", *arguments, cwd=tmp_path)
        assert done.code == code, done
        assert "Traceback" not in done.err
        assert words in done.err.replace("\n", " ")
