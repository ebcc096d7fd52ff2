"""An installation is exported, its lines travel to another version and another store, and its jobs end there."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from tests.support import real_time
from tests.support.cli import Outcome, jqmaster
from tests.support.master import PATIENT, Api
from tests.support.processes import MasterProcess, running
from tests.support.scripted_worker import puller_at

pytestmark = [pytest.mark.system, pytest.mark.req("D31"), real_time.PROCESSES]

LIMIT = {"matcher": {"field": "name", "op": "eq", "value": "work"}, "concurrency": 2}


async def command(*arguments: object, stdin: str = "") -> Outcome:
    return await asyncio.to_thread(jqmaster, *arguments, stdin=stdin)


async def test_an_export_of_another_version_is_imported_once_and_its_jobs_end(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, new = MasterProcess(tmp_path / "old", **PATIENT), MasterProcess(tmp_path / "new", **PATIENT)
    file = tmp_path / "all.jsonl"
    with running(old, new):
        there, here = Api(old.url), Api(new.url)
        assert (await there.call("PUT", "/api/constraints/two", LIMIT))[0] == 201
        waiting = [await there.enqueue("work", n, keep_result=True) for n in range(3)]
        step = await there.enqueue("step", "then", after={"jobs": waiting[:1]})
        async with puller_at(there, "work", "once") as worker:
            once = await there.enqueue("once", 1, max_retry=0)
            held = await worker.claim(4)
            assert once in {job["job_id"] for job in held}
            done = await command("export", file, "--data-dir", old.data_dir, "--json")
            assert done.code == 0, done.err
        assert done.lines()[0]["lines"] == {"constraint": 1, "job": 5}
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
        again = await command("export", file, "--data-dir", old.data_dir)
        assert (again.code, "File exists" in again.err) == (2, True)

        # A later version writes lines, fields and a format of a kind that this one does not know.
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        lines[2]["document"]["mood"] = "good"
        lines.insert(1, {"kind": "saga", "format": 1, "id": "s", "document": {}})
        lines[-1]["document"]["lines"]["saga"] = 1
        later = "".join(json.dumps(line) + "\n" for line in lines)
        target = ("--data-dir", new.data_dir)
        refused = await command("import", "-", *target, stdin=later)
        assert (refused.code, refused.out) == (2, "")
        assert "line 2, saga s: this version knows no such kind" in refused.err
        assert "mood: this version knows no such field" in refused.err
        assert "--skip-unknown" in refused.err
        assert (await here.counts())["ready"] == 0
        dry = await command("import", file, *target, "--dry-run", "--json")
        assert (dry.code, dry.lines()[0]["lines"]) == (0, {"constraint": 1, "job": 5})
        assert (await here.counts())["ready"] == 0

        first = await command("import", "-", *target, "--skip-unknown", "--json", stdin=later)
        (told,) = first.lines()
        assert told["new"] == {"constraint": 1, "job": 4}, first.out
        assert sum(told["skipped"].values()) == 2
        assert [one["id"] for one in told["left_out"]] == [once]
        assert told["may_run_again"]["running"] >= 1
        second = await command("import", file, *target)
        assert second.code == 0, second.err
        assert "there already  1 constraint, 4 jobs" in second.out
        assert "must not run twice" in second.out

        async with puller_at(here, "work", "step") as worker:
            for left in (2, 1):
                jobs = await worker.claim(left)
                assert 1 <= len(jobs) <= 2, "the constraint came along"
                for job in jobs:
                    await worker.end(job, result=job["argument"])
            for job_id in waiting:
                await here.until_state(job_id, "succeeded")
            await here.until_state(step, "ready")
            (job,) = await worker.claim(1)
            assert [one["job_id"] for one in job["inputs"]] == waiting[:1]
            await worker.end(job)
        await here.until_state(step, "succeeded")
        entries = (await here.call("GET", "/api/audit"))[1]["entries"]
        assert {"import", "constraint.put"} <= {
            entry["action"] for entry in entries if entry["who"] == "import"
        }
        for api in (there, here):
            await api.http.aclose()
        assert new.troubles_of_store() == []


def test_secrets_need_a_file(tmp_path: Path) -> None:
    done = jqmaster("export", "-", "--with-secrets", cwd=tmp_path)
    assert (done.code, "name a file" in done.err) == (2, True)
    nowhere = jqmaster("export", "all.jsonl", cwd=tmp_path)
    assert (nowhere.code, "start `jqmaster serve`" in nowhere.err) == (5, True)
    assert not (tmp_path / "all.jsonl").exists()
    missing = jqmaster("import", "all.jsonl", cwd=tmp_path)
    assert (missing.code, "cannot read all.jsonl" in missing.err) == (2, True)
