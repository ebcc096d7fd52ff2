"""A test that fails beside others runs once more alone. A second failure fails the run."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import duration, run_limit, suite
from tests.support.order import spread

ROOT = Path(__file__).parents[2]
# `crowded` fails only beside another process of the run, `broken` always.
INNER = """
import os


def test_passes():
    pass


def test_crowded():
    assert "PYTEST_XDIST_WORKER" not in os.environ
"""
BROKEN = """

def test_broken():
    assert 1 == 2
"""

# Importing all installed plugins takes longer than the tests.
PLUGINS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist -p pytest_timeout"}


def run(folder: Path, tests: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_inner.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "tests.support.suite", "-n", "1", "test_inner.py"]
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "COLUMNS": "200", **PLUGINS, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_test_that_fails_only_beside_others_passes(tmp_path: Path) -> None:
    done = run(tmp_path, INNER)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "1 failed beside other tests, and run once more alone:\n  test_inner.py::test_crowded\n"
        in done.stdout
    )
    assert "1 failed, 1 passed" in done.stdout
    assert done.stdout.splitlines()[-1].count("1 passed") == 1


def test_a_fault_fails_alone_too(tmp_path: Path) -> None:
    done = run(tmp_path, INNER + BROKEN)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "2 failed beside other tests" in done.stdout
    assert "FAILED test_inner.py::test_broken" in done.stdout.split("run once more alone")[1]


class Runs:
    """Stands in for pytest: answers each run with a code, and leaves the list of failures."""

    def __init__(self, *codes: int, failed: Sequence[str]) -> None:
        self._codes = list(codes)
        self._failed = failed
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, arguments: Sequence[str]) -> int:
        self.asked.append(tuple(arguments))
        suite.FAILED.parent.mkdir(parents=True, exist_ok=True)
        suite.FAILED.write_text(json.dumps(dict.fromkeys(self._failed, True)))
        return self._codes.pop(0)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_many_failures_are_not_run_again(capsys: pytest.CaptureFixture[str]) -> None:
    runs = Runs(1, failed=[f"test_it.py::test_{n}" for n in range(suite.MAX_ALONE + 1)])
    assert suite.main(["-q"], runs) == 1
    assert runs.asked == [("-q",)]
    assert "31 tests failed: too many to run them once more alone" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5])
def test_a_run_without_a_failed_test_ends_with_its_own_code(code: int) -> None:
    runs = Runs(code, failed=[])
    assert suite.main([], runs) == code
    assert len(runs.asked) == 1


# 10: too few branches were covered (`branch_coverage.NOT_COVERED`). 11: the run took too long (`run_limit.TOO_LONG`).
@pytest.mark.parametrize("code", [2, 3, 10, 11])
def test_a_run_that_broke_off_is_not_repeated(code: int) -> None:
    runs = Runs(code, failed=["test_it.py::test_1"])
    assert suite.main([], runs) == code
    assert len(runs.asked) == 1


def test_failures_of_an_earlier_run_are_forgotten() -> None:
    suite.FAILED.parent.mkdir(parents=True)
    suite.FAILED.write_text('{"test_old.py::test_old": true}')
    assert suite.main([], lambda _: 1) == 1


class Item:
    """The parts of a test that determine its order."""

    def __init__(self, name: str, timeout_s: float, folder: str = "tests/api/") -> None:
        self.name = name
        self.nodeid = f"{folder}test_it.py::test_{name}"
        self._timeout_s = timeout_s

    def get_closest_marker(self, name: str) -> pytest.Mark:
        return pytest.Mark(name, (self._timeout_s,), {}, _ispytest=True)


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("long_ones", [0, 1, 6, 20])
def test_every_second_process_begins_with_long_tests_and_each_test_runs_once(
    processes: int, long_ones: int
) -> None:
    items: list[Any] = [Item(f"{n}", 200.0 + n if n < long_ones else 60.0) for n in range(20)]
    ordered: list[Any] = spread(items, processes)
    assert sorted(item.name for item in ordered) == sorted(item.name for item in items)
    begins = [sum((20 + earlier) // processes for earlier in range(number)) for number in range(processes)]
    longest = [f"{n}" for n in reversed(range(long_ones))]
    sharing = min((processes + 1) // 2, long_ones)
    assert [ordered[begins[2 * n]].name for n in range(sharing)] == longest[:sharing]
    if long_ones == 6 and processes > 1:
        assert {ordered[begins[n]].name for n in range(1, processes, 2)}.isdisjoint(longest)


def test_tests_of_processes_follow_the_long_ones_in_every_second_process() -> None:
    folders = ["tests/api/", "tests/system/"] * 10
    items: list[Any] = [Item(f"{n}", 200.0 if n == 0 else 60.0, folder) for n, folder in enumerate(folders)]
    ordered: list[Any] = spread(items, 4)
    parts = [[item.name for item in ordered[first : first + 5]] for first in (0, 5, 10, 15)]
    assert parts[0] == ["0", "3", "7", "11", "15"]
    assert parts[2] == ["1", "5", "9", "13", "17"]
    # One does not fit, and begins as soon as possible. The others keep their order.
    assert parts[1] + parts[3] == ["19", "2", "4", "6", "8", "10", "12", "14", "16", "18"]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_tests_that_share_a_browser_run_one_after_another(processes: int) -> None:
    folders = ["tests/api/", "tests/ui/"] * 4 + ["tests/system/"] * 8
    items: list[Any] = [Item(f"{n}", 60.0, folder) for n, folder in enumerate(folders)]
    names = [item.name for item in spread(items, processes)]
    begin = names.index("1")
    assert names[begin : begin + 4] == ["1", "3", "5", "7"]
    assert begin == {1: 8, 2: 8, 4: 4}[processes]


BLOCKED = """
import signal
import threading

import pytest


@pytest.mark.timeout(1)
def test_that_takes_the_signal_of_its_time_limit():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    threading.Event().wait()
"""


def test_a_test_that_heeds_no_time_limit_ends_its_process_and_no_other_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.support.hung"]\n')
    done = run(tmp_path, BLOCKED + INNER)
    name = "test_inner.py::test_that_takes_the_signal_of_its_time_limit"
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"crashed while running '{name}'" in done.stdout
    assert "2 failed, 1 passed" in done.stdout
    assert f"run once more alone:\n  test_inner.py::test_crowded\n  {name}\n" in done.stdout
    # The stacks of its threads tell where it stood, both times.
    assert done.stderr.count("in test_that_takes_the_signal_of_its_time_limit") >= 2


STANDING = """
import threading


def test_that_stands():
    threading.Event().wait()
"""


@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_run_that_takes_too_long_names_the_tests_that_run(tmp_path: Path, processes: str) -> None:
    arguments = ("-p", "tests.support.run_limit", "-n", processes)
    # On a busy machine, three seconds may end before the test begins.
    for limit_s in (3, 10, 25):
        done = run(tmp_path, STANDING, *arguments, JQMASTER_TEST_LIMIT_S=str(limit_s))
        if "test_that_stands" in done.stderr:
            break
    assert done.returncode == run_limit.TOO_LONG, done.stdout + done.stderr
    *_, took, ended, standing = done.stderr.splitlines()
    assert took.startswith("This run is ended: it took more than 0 minutes")
    assert ended == "0 tests have ended. These run:"
    assert standing.startswith("  test_inner.py::test_that_stands for ")


def test_a_run_within_its_limit_ends_as_usual(tmp_path: Path) -> None:
    done = run(
        tmp_path, "def test_passes(): pass", "-p", "tests.support.run_limit", JQMASTER_TEST_LIMIT_S="60"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is ended" not in done.stderr


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_documents_say_how_long_the_suite_takes_on_two_cores(page: str) -> None:
    text = " ".join((ROOT / page).read_text("utf-8").split())
    said = re.findall(r"`?make test`?[^#].{0,200}?(\d+) minutes on two cores", text)
    assert said, f"{page} no longer says how long `make test` takes"
    assert set(said) == {str(duration.minutes(2))}, f"correct {page}, or CPU_MINUTES in {duration.__file__}"


def test_make_test_says_at_its_start_how_long_it_takes() -> None:
    plan = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "test"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert plan.returncode == 0, plan.stderr
    assert plan.stdout.split("\n")[0].endswith("tests/support/duration.py")
    # Without the repository's modules: nothing is installed yet.
    said = subprocess.run(
        [sys.executable, "-I", str(ROOT / "tests/support/duration.py")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said == duration.told(duration.cores_here()) + "\n"


def test_more_cores_make_the_suite_shorter_and_more_than_its_processes_do_not() -> None:
    assert duration.minutes(1) > duration.minutes(2) > duration.minutes(4) == duration.minutes(64)
    assert "on the one core here" in duration.told(1)
    assert f"about {duration.minutes(8)} minutes on the 8 cores here" in duration.told(8)
