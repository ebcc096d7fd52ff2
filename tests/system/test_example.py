"""The example runs to its end, and all comes out as it expects."""

import subprocess
import sys

import pytest

from tests.support.processes import ROOT, free_port

pytestmark = pytest.mark.system


@pytest.mark.timeout(200)
def test_the_example_ends_well_and_shows_its_summary() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.stdlib", "--once", "--port", str(free_port())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        timeout=150,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "longest files" in done.stdout, done.stdout[-3000:]
