"""docs/failures.md promises; each of its lines names a test that exists."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TEXT = (TESTS.parent / "docs" / "failures.md").read_text()


def test_every_line_names_tests_that_exist() -> None:
    lines = [
        line
        for line in TEXT.splitlines()
        if line.startswith("| ") and not line.startswith(("| dies", "| misbehaves |", "|---"))
    ]
    assert len(lines) > 30
    missing = []
    for line in lines:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", line)
        if not named:
            missing.append(f"no test: {line[:60]}")
        for file, test in named:
            path = TESTS / file
            if not path.exists() or not re.search(rf"def {test}\(", path.read_text()):
                missing.append(f"{file}::{test}")
    assert missing == []
