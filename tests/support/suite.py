"""Runs tests with pytest. Tests that fail beside others run once more alone, and a second failure fails the run.

Tests share two cores, and the machine has other users, so one of ten thousand may wait too long for the processor. A
real fault also fails alone. More than a few failures do not come from load, so nothing runs again.

Call it as `python -m tests.support.suite ARGUMENTS-OF-PYTEST`. The exit code is pytest's, or 1 if a test failed twice.
"""

import compileall
import functools
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.support import run_limit

ROOT: Final = Path(__file__).parents[2]
_BEGUN_S: Final = time.monotonic()
MAX_ALONE: Final = 30
# pytest's cache records the last failures here.
FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
ALONE: Final = ("--last-failed", "--last-failed-no-failures", "none", "-n", "0", "-p", "no:randomly")


def main(arguments: Sequence[str], run: Callable[[Sequence[str]], int]) -> int:
    """Run all tests, then rerun failed ones alone, and return the exit code.

    `run` runs pytest with arguments, and returns its exit code.
    """
    FAILED.unlink(missing_ok=True)
    code = run(arguments)
    failed = _failed()
    # Without a failed test, the run itself is at fault: its final checks, its arguments or its processes.
    if code != pytest.ExitCode.TESTS_FAILED or not failed:
        return code
    if len(failed) > MAX_ALONE:
        print(f"{len(failed)} tests failed: too many to run them once more alone", file=sys.stderr)
        return code
    print(
        f"\n{len(failed)} failed beside other tests, and run once more alone:",
        *failed,
        sep="\n  ",
        flush=True,
    )
    return run(ALONE)


def _failed() -> list[str]:
    """Return the IDs of tests that failed in the last run."""
    return sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []


def _pytest(arguments: Sequence[str]) -> int:
    # The second run gets the time that the first one has left.
    left_s = run_limit.limit_s() - (time.monotonic() - _BEGUN_S)
    env = {**os.environ, run_limit.VARIABLE: f"{max(left_s, 1.0):.0f}"}
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=env, check=False).returncode


def compile_all() -> None:
    """Compile what tests import without pytest, if that was never done. In a new checkout, each process of a run would
    compile the same modules at the same time. `compiled.py` does the same for the test modules."""
    new = [
        str(path)
        for folder in ("jqmaster", "worker_sdk", "tests", "examples", "tools")
        for path in (ROOT / folder).rglob("*.py")
        if not path.name.startswith(("test_", "conftest"))
        and not Path(importlib.util.cache_from_source(str(path))).exists()
    ]
    if new and not sys.dont_write_bytecode:
        with ProcessPoolExecutor() as pool:
            list(pool.map(functools.partial(compileall.compile_file, quiet=2), new, chunksize=20))


if __name__ == "__main__":
    compile_all()
    sys.exit(main(sys.argv[1:], _pytest))
