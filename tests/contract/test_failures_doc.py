"""Each line of docs/failures.md names existing tests."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TEXT = (TESTS.parent / "docs" / "failures.md").read_text()


def test_every_line_names_tests_that_exist() -> None:
    document = TEXT.splitlines()
    lines = [
        line
        for line, following in zip(document, [*document[1:], ""], strict=True)
        if line.startswith("| ") and not following.startswith("|---")
    ]
    assert len(lines) > 150
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
