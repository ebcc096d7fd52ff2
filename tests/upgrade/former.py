"""The former release, from its wheel, in separate processes."""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from tests.support.processes import ROOT, MasterProcess, WorkerProcess

DATA = Path(__file__).parent / "data"
VERSION = "0.2.0"


def extracted(version: str = VERSION) -> Path:
    """Unpack the wheel of a release into a new directory."""
    directory = Path(tempfile.mkdtemp(prefix="jq-former-", dir="/tmp"))
    with zipfile.ZipFile(DATA / f"jqmaster-{version}-py3-none-any.whl") as archive:
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
        # Its log handler has no lock, which Python 3.13 needs.
        if sys.version_info >= (3, 13) and (release / "jqmaster-0.3.0.dist-info").exists():
            pytest.skip("the worker of 0.3.0 does not start on Python 3.13")
        super().__init__(directory, master_url, **options)  # type: ignore[arg-type]
        self._environment |= environment_of(release)


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
