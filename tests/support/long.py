"""A pytest plugin for tests that take long.

`make test` leaves out a test with the mark `long`: another one proves the same promise on a smaller scale. It also
leaves out cases of a parametrised test (`left_out`), and runs a test with the mark `sized` on a smaller scale (`size`).
`make test-long` runs all of them whole.
"""

import os
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet

IS_LONG: Final = os.environ.get("JQMASTER_TEST_LONG") == "1"
_LEFT_OUT: Final = pytest.mark.skip(reason="runs by `make test-long`")


def size(usual: int, whole: int) -> int:
    """Return how much a test with the mark `sized` does in this run."""
    return whole if IS_LONG else usual


def left_out(*cases: Any) -> list[ParameterSet]:
    """Return cases of a parametrised test that only `make test-long` runs. The other cases of the test cover the same
    behavior. A case of several values is a tuple."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
        for case in cases
    ]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not IS_LONG and item.get_closest_marker("long"):
            item.add_marker(_LEFT_OUT)
