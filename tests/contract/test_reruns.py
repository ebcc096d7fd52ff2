"""A failed test runs once more only where a mark says why, and never where no real time passes."""

import re
from pathlib import Path

from tests.support import real_time

TESTS = Path(__file__).parents[1]
# Nothing in these folders waits for a clock: a failure there is a fault.
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
    assert bare == {"conftest.py", "support/real_time.py"}


def test_where_no_real_time_passes_nothing_runs_again() -> None:
    marked = {
        path.relative_to(TESTS).parts[0]
        for path in TESTS.rglob("test_*.py")
        # These two hold a live master over HTTP.
        if not path.name.startswith("test_schemathesis_")
        and re.search(r"pytestmark = .*\breal_time\.|@real_time\.", path.read_text())
    }
    assert marked
    assert marked & STEADY == set()
