"""Everything that a master writes is for its user alone, whatever its umask, also what libraries write."""

import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.api.logs.test_logs import line, send
from tests.support.master import Api
from tests.support.processes import MasterProcess, running
from tests.support.scripted_worker import puller_at
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("D18")


class OpenMaster(MasterProcess):
    """A master whose umask takes no right away."""

    is_prepared = False
    python = "/bin/sh"

    def __init__(self, directory: Path, **settings: Any) -> None:
        super().__init__(directory, **settings)
        self._arguments = ["-c", 'umask 0; exec "$0" -m jqmaster serve', sys.executable]


def too_open(*roots: Path) -> dict[str, str]:
    """Return the files and directories that others could read, change or enter, by mode."""
    found = {}
    for root in roots:
        for path in (root, *root.rglob("*")):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & 0o077:
                found[str(path.relative_to(root.parent))] = oct(mode)
    return found


async def test_all_files_of_a_full_run_are_private(tmp_path: Path) -> None:
    archive, exported = tmp_path / "made" / "archive", tmp_path / "audit.log"
    settings: dict[str, Any] = {
        "log_archive_url": f"file://{archive}",
        "retention_logs_s": 0,
        "audit_export": exported,
        "public_url": "http://127.0.0.1",
    }
    master = OpenMaster(tmp_path, **settings)
    with running(master):
        found = re.search(r"jqm_admin_\S+", master.log.read_text())
        assert found, master.log.read_text()
        api = Api(master.url, found[0])
        async with puller_at(api, "work") as worker:
            job_id = await api.enqueue("work")
            (job,) = await worker.claim()
            await send(worker, line(job, 1, "a secret"))
            await worker.end(job, "success", result=None)

        # The audit log gets an entry.
        assert (await api.call("PATCH", "/api/settings", {"max_streams": 100}))[0] == 200

        async def is_archived() -> bool:
            return bool((await api.call("GET", f"/api/jobs/{job_id}/logs"))[1]["is_archived"])

        await wait_until(is_archived, timeout_s=60, what="the log is in the archive")
        await wait_until(exported.exists, timeout_s=30, what="the audit log is exported")
        assert [path for path in archive.rglob("*") if path.is_file()]
        assert too_open(master.data_dir, archive.parent, exported) == {}
        await api.http.aclose()
