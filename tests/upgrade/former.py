"""The former release, from its wheel, in separate processes."""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.support.processes import ROOT, MasterProcess, WorkerProcess

DATA = Path(__file__).parent / "data"
VERSION = "0.2.0"
WHEEL = DATA / f"jqmaster-{VERSION}-py3-none-any.whl"


def extracted(wheel: Path = WHEEL) -> Path:
    """Unpack the wheel into a new directory."""
    directory = Path(tempfile.mkdtemp(prefix="jq-former-", dir="/tmp"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


def environment_of(release: Path) -> dict[str, str]:
    """Make Python find this release before any installed one, and the tests' handlers after it."""
    return {"PYTHONPATH": f"{release}{os.pathsep}{ROOT}", "PYTHONSAFEPATH": "1"}


class FormerMaster(MasterProcess):
    """`jqmaster serve` of the former release."""

    def __init__(self, release: Path, directory: Path, store_url: str | None, **settings: object) -> None:
        super().__init__(directory, store_url, None, **settings)
        self._environment |= environment_of(release)


class FormerWorker(WorkerProcess):
    """`jqmaster worker` of the former release."""

    def __init__(
        self, release: Path, directory: Path, master_url: str | list[str], **options: object
    ) -> None:
        super().__init__(directory, master_url, **options)  # type: ignore[arg-type]
        self._environment |= environment_of(release)

    def run_handlers(self, module: str, **environment: str) -> None:
        """Run other handlers than those of tests/support/workers.py."""
        self._arguments[self._arguments.index("worker") + 1] = module
        self._environment |= environment


def run_former(release: Path, code: str, *arguments: str) -> str:
    """Return the output of a program that imports the former release."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment_of(release)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
