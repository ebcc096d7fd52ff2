"""Archived logs over HTTP: the view is the same, also for jobs that are gone."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from jqmaster.runtime.duties import log_archiver
from tests.api.logs.test_logs import line, page, send
from tests.support import real_time
from tests.support.cli import Outcome, jqmaster
from tests.support.master import Api, master_on
from tests.support.scripted_worker import puller_at
from tests.support.server import StoreServer
from tests.support.waiting import wait_until
from worker_sdk import RefusedError, Tasks, configure

pytestmark = [pytest.mark.req("D17"), real_time.MASTER]

TOKENS = ["push+work+read+operate+admin:everything", "read:viewer"]
ARCHIVE: dict[str, Any] = {"retention_logs_s": 0.0, "tokens": TOKENS}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_archiver, "POLL_S", 0.1)


async def over(api: Api, *texts: str) -> str:
    """Run a job that writes these lines and succeeds."""
    async with puller_at(api, "logs.work") as worker:
        job_id = await api.enqueue("logs.work")
        (job,) = await worker.claim()
        await send(worker, *(line(job, n, text) for n, text in enumerate(texts, 1)))
        await worker.end(job, "success", result=None)
    return job_id


async def until_archived(api: Api, job_id: str) -> dict[str, Any]:
    async def archived() -> dict[str, Any] | None:
        found = await page(api, job_id)
        return found if found["is_archived"] else None

    return await wait_until(archived, timeout_s=30, what="the log is in the archive")


async def test_a_log_is_read_in_the_archive_until_its_job_is_deleted(
    store_server: StoreServer, tmp_path: Path
) -> None:
    async with master_on(store_server.url, log_archive_url=f"file://{tmp_path}", **ARCHIVE) as (master, _):
        api, viewer = Api(master.server.url, "everything"), Api(master.server.url, "viewer")
        job_id = await over(api, "a", "b")
        found = await until_archived(api, job_id)
        assert [entry["text"] for entry in found["entries"]] == ["a", "b"]
        assert (found["state"], found["last"], found["log_ref"]) == (
            "succeeded", 2, f"{master.settings.shard}/{job_id}/",
        )  # fmt: skip
        assert [e["text"] for e in (await page(viewer, job_id))["entries"]] == [None, None]
        metrics = (await api.http.get("/metrics")).text
        assert "jqmaster_log_archive_logs_total 1.0" in metrics
        assert "jqmaster_log_archive_lag_seconds 0.0" in metrics
        status, _ = await api.call("DELETE", f"/api/jobs/{job_id}")
        assert status == 204
        status, problem = await api.call("GET", f"/api/jobs/{job_id}/logs")
        assert (status, problem["code"]) == (404, "unknown_job")
        await wait_until(lambda: not [*tmp_path.rglob("*.gz")], timeout_s=30)
        await asyncio.gather(api.http.aclose(), viewer.http.aclose())


async def test_an_operator_erases_the_log_of_a_job_that_is_gone(
    store_server: StoreServer, tmp_path: Path
) -> None:
    settings = ARCHIVE | {"log_archive_url": f"file://{tmp_path}", "retention_succeeded_max": 0}
    async with master_on(store_server.url, **settings) as (master, _):
        api, viewer = Api(master.server.url, "everything"), Api(master.server.url, "viewer")
        job_id = await over(api, "a secret")

        async def is_gone() -> bool:
            found = await page(api, job_id)
            return found["state"] is None and bool(found["is_archived"])

        await wait_until(is_gone, timeout_s=30, what="the job is gone, and its log is in the archive")
        path = f"/api/jobs/{job_id}/logs"
        assert (await viewer.call("DELETE", path))[0] == 403
        assert (await api.call("DELETE", path))[0] == 204
        for method in ("GET", "DELETE"):
            status, problem = await api.call(method, path)
            assert (status, problem["code"]) == (404, "unknown_job")
        await wait_until(lambda: not [*tmp_path.rglob("*.gz")], timeout_s=30)
        _, audit = await api.call("GET", "/api/audit")
        assert [(e["action"], e["target"]) for e in audit["entries"][:1]] == [("job.erase_log", job_id)]
        await asyncio.gather(api.http.aclose(), viewer.http.aclose())


async def test_a_handle_reads_the_archive(store_server: StoreServer, tmp_path: Path) -> None:
    def work() -> None:
        """A scripted worker runs this."""

    task = Tasks().task("logs.work")(work)
    async with master_on(store_server.url, log_archive_url=f"file://{tmp_path}", **ARCHIVE) as (master, _):
        api = Api(master.server.url, "everything")
        job_id = await over(api, "a", "b")
        await until_archived(api, job_id)
        configure(url=master.server.url, token="everything")
        try:
            handle = task.handle(job_id)
            assert [line.text async for line in handle.logs(follow=True)] == ["a", "b"]
            assert [line.text for line in await asyncio.to_thread(list, handle.logs(tail=1))] == ["b"]
            for path in tmp_path.rglob("*.gz"):
                path.write_bytes(b"spoiled")
            # The archive would answer the same again, so it is not asked again.
            with pytest.raises(RefusedError) as refused:
                await asyncio.to_thread(list, handle.logs())
            assert refused.value.code == "archive_damaged"
        finally:
            configure()
        await api.http.aclose()


async def test_the_log_of_a_job_that_is_gone_is_read_with_the_same_rights(
    store_server: StoreServer, tmp_path: Path
) -> None:
    options = {**ARCHIVE, "log_archive_url": f"file://{tmp_path}", "retention_succeeded_s": 0.0}
    async with master_on(store_server.url, **options) as (master, _):
        api, viewer = Api(master.server.url, "everything"), Api(master.server.url, "viewer")
        job_id = await over(api, "a", "b")

        async def gone() -> bool:
            found = await page(api, job_id)
            # The lines are readable wherever they are at the moment.
            assert [entry["text"] for entry in found["entries"]] == ["a", "b"]
            return found["state"] is None and found["is_archived"]

        await wait_until(gone, timeout_s=30)
        assert (await page(api, job_id, after=1))["entries"][0]["text"] == "b"
        assert (await page(api, job_id, level="error"))["entries"] == []
        assert [e["text"] for e in (await page(viewer, job_id))["entries"]] == [None, None]
        assert (await api.call("GET", f"/api/jobs/{job_id}"))[0] == 404
        await asyncio.gather(api.http.aclose(), viewer.http.aclose())


async def test_a_damaged_object_is_502_and_an_archive_that_is_away_503(
    store_server: StoreServer, tmp_path: Path
) -> None:
    directory = tmp_path / "archive"
    async with master_on(store_server.url, log_archive_url=f"file://{directory}", **ARCHIVE) as (master, _):
        api = Api(master.server.url, "everything")
        job_id = await over(api, "a")
        await until_archived(api, job_id)
        (path,) = directory.rglob("*.gz")
        path.write_bytes(path.read_bytes()[:-1])
        status, problem = await api.call("GET", f"/api/jobs/{job_id}/logs")
        assert (status, problem["code"]) == (502, "archive_damaged")
        shutil.rmtree(directory)
        directory.write_text("no directory")
        answer = await api.http.get(f"/api/jobs/{job_id}/logs")
        assert (answer.status_code, answer.json()["code"]) == (503, "archive_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        # Everything else goes on.
        assert (await api.job(job_id))["state"] == "succeeded"
        await api.http.aclose()


async def test_an_archive_that_is_away_is_named_and_the_lines_in_the_store_are_shown(
    store_server: StoreServer, tmp_path: Path
) -> None:
    directory = tmp_path / "archive"
    url = f"file://{directory}"
    async with master_on(store_server.url, log_archive_url=url, **ARCHIVE) as (master, _):
        api = Api(master.server.url, "everything")
        async with puller_at(api, "logs.work") as worker:
            job_id = await api.enqueue("logs.work")
            (job,) = await worker.claim()
            await send(worker, line(job, 1, "a"), line(job, 2, "b"))
            await until_archived(api, job_id)
            shutil.rmtree(directory)
            directory.write_text("no directory")
            await send(worker, line(job, 3, "c"))
            status, problem = await api.call("GET", f"/api/jobs/{job_id}/logs")
            assert (status, problem["code"], problem["stored_after"]) == (503, "archive_unavailable", 2)
            assert url[:60] in problem["detail"]
            assert "`jqmaster doctor`" in problem["detail"]
            found = await page(api, job_id, after=problem["stored_after"])
            assert [entry["text"] for entry in found["entries"]] == ["c"]

            def logs(*options: str) -> Outcome:
                return jqmaster(
                    "logs", job_id, *options, JQMASTER_URL=master.server.url, JQMASTER_TOKEN="everything"
                )

            for options in ((), ("--json",)):
                done = await asyncio.to_thread(logs, *options)
                assert done.code == 5
                for text in (url[:60], "Try again in", "from the store:"):
                    assert text in done.err
                (shown,) = done.out.splitlines()
                assert "c" in shown
            await worker.end(job, "success", result=None)
            done = await asyncio.to_thread(logs, "--follow")
            assert done.code == 5
            assert "c" in done.out
        await api.http.aclose()
