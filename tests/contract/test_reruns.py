"""A failed test runs once more only if a mark says why, or if the machine stood still meanwhile; never where tests do
not depend on time."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support import real_time
from tests.support.standstill import BEAT_S, Reading, Watch

TESTS = Path(__file__).parents[1]
# These folders do not wait for a clock, so a failure there is a fault.
STEADY = {"contract", "domain", "model", "net", "store"}


def test_every_mark_says_why_in_a_sentence() -> None:
    marks = [mark for name, mark in vars(real_time).items() if name.isupper()]
    assert marks
    for mark in marks:
        (why,) = mark.args
        assert len(why.split()) >= 5, why


def test_only_the_marks_with_a_reason_let_a_test_run_again() -> None:
    bare = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if re.search(r"mark\.(flaky|real_time)\(", path.read_text())
    }
    assert bare == {"support/reruns.py", "support/real_time.py"}


def test_nothing_runs_again_if_no_real_time_passes() -> None:
    marked = {
        path.relative_to(TESTS).parts[0]
        for path in TESTS.rglob("test_*.py")
        # These two hold a live master over HTTP.
        if not path.name.startswith("test_schemathesis_")
        and re.search(r"pytestmark = .*\breal_time\.|@real_time\.", path.read_text())
    }
    assert marked
    assert marked & STEADY == set()


class Clocks:
    """Clocks moved by a test."""

    def __init__(self) -> None:
        self._now = Reading(100.0, 10.0, 5.0)
        self.watch = Watch(lambda: self._now)

    def passed(self, seconds: float, *, used_s: float = 0.0, stolen_s: float = 0.0) -> None:
        now = self._now
        self._now = Reading(now.at_s + seconds, now.used_s + used_s, now.stolen_s + stolen_s)


def test_a_late_beat_is_noted_until_something_later_begins() -> None:
    clocks = Clocks()
    clocks.passed(1.2)
    assert clocks.watch.since(100.0) is None
    clocks.passed(BEAT_S + 3.5)
    clocks.watch.look()
    clocks.passed(BEAT_S)
    assert clocks.watch.since(100.0) == "the machine stood still for 3.5 s"
    assert clocks.watch.since(105.0) is None


def test_a_process_that_computed_kept_itself_waiting() -> None:
    clocks = Clocks()
    clocks.passed(5.0, used_s=4.5)
    assert clocks.watch.since(100.0) is None
    clocks.passed(5.0, used_s=1.0)
    assert clocks.watch.since(100.0) == "the machine stood still for 3.8 s"


def test_the_report_notes_the_time_that_the_host_took_if_it_was_most() -> None:
    clocks = Clocks()
    for stolen_s, expected in ((0.4, None), (0.8, "the host took 80% of the processors for 2.0 s")):
        for _ in range(2):
            clocks.passed(1.0, stolen_s=stolen_s)
            clocks.watch.look()
        assert clocks.watch.since(100.0) == expected


def test_a_process_that_was_stopped_notes_it() -> None:
    code = (
        "import sys, time; from tests.support.standstill import Watch; watch = Watch(); watch.start(); "
        "at_s = time.monotonic(); print('ready', flush=True); sys.stdin.readline(); print(watch.since(at_s)); "
        "watch.stop()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=TESTS.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(2.5)
        os.kill(process.pid, signal.SIGCONT)
        told, _ = process.communicate("\n")
    assert re.fullmatch(r"the machine stood still for \d+\.\d s\n", told)


# Each case lists its failing attempts, and those in which the machine stands still.
INNER = """
import pytest
from tests.support import real_time, reruns

waits = real_time.MASTER
UNMARKED = {"passes": ([], []), "fails": ([1], []), "stalls": ([1], [1]), "stalls_twice": ([1, 2], [1, 2])}
MARKED = {"once": ([1], []), "twice": ([1, 2], []), "then_stalls": ([1, 2], [2]), "stalls": ([1, 2, 3], [1, 2, 3])}


def run(request, fails, still):
    attempt = getattr(request.node, "execution_count", 1)
    told = "the machine stood still" if attempt in still else None
    request.config.stash[reruns._WATCH].since = lambda at_s: told
    assert attempt not in fails


@pytest.mark.parametrize("case", UNMARKED)
def test_unmarked(request, case):
    run(request, *UNMARKED[case])


@waits
@pytest.mark.parametrize("case", MARKED)
def test_marked(request, case):
    run(request, *MARKED[case])
"""


def outcomes(folder: Path) -> dict[str, list[str]]:
    """Run INNER in a folder, and return the reports on each case's attempts."""
    folder.mkdir()
    (folder / "test_inner.py").write_text(INNER)
    configured = folder.parent / "pytest.ini"
    configured.write_text("[pytest]\nmarkers = real_time(why)\n")
    plugins = ("-p", "pytest_rerunfailures", "-p", "tests.support.reruns", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", *plugins, "-c", str(configured), str(folder)],
        cwd=TESTS.parent,
        env={"PATH": os.environ["PATH"], "COLUMNS": "300", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found: dict[str, list[str]] = {}
    for line in re.finditer(r"::test_(\w+\[\w+\]) (PASSED|FAILED|RERUN \(.+?\)) +\[", done.stdout):
        found.setdefault(line[1], []).append(line[2])
    return found


def test_an_unmarked_test_runs_again_only_if_the_machine_stood_still(tmp_path: Path) -> None:
    marked, still = f"RERUN ({real_time.MASTER.args[0]})", "RERUN (the machine stood still)"
    assert outcomes(tmp_path / "api") == {
        "unmarked[passes]": ["PASSED"],
        "unmarked[fails]": ["FAILED"],
        "unmarked[stalls]": [still, "PASSED"],
        "unmarked[stalls_twice]": [still, "FAILED"],
        "marked[once]": [marked, "PASSED"],
        "marked[twice]": [marked, "FAILED"],
        "marked[then_stalls]": [marked, still, "PASSED"],
        "marked[stalls]": [still, still, "FAILED"],
    }


def test_a_decision_does_not_even_then(tmp_path: Path) -> None:
    found = outcomes(tmp_path / "domain")
    assert found["unmarked[stalls]"] == ["FAILED"]
    assert found["marked[then_stalls]"][-1] == "PASSED"
