"""The option `after`, in each form that callers may pass."""

from types import SimpleNamespace
from typing import Any

import pytest

from worker_sdk import After, make_job

pytestmark = pytest.mark.req("P9")

FIRST = "0199a0c4-0000-7000-8000-000000000001"
SECOND = "0199a0c4-0000-7000-8000-000000000002"


@pytest.mark.parametrize(
    ("given", "jobs"),
    [
        (FIRST, [FIRST]),
        ([FIRST, SECOND], [FIRST, SECOND]),
        (make_job("work", id=FIRST), [FIRST]),
        ((make_job("work", id=SECOND), SimpleNamespace(id=FIRST)), [SECOND, FIRST]),
        (SimpleNamespace(id=FIRST), [FIRST]),
        (After([FIRST]), [FIRST]),
        ({"jobs": [SimpleNamespace(id=SECOND)], "when": "succeeded"}, [SECOND]),
    ],
)
def test_jobs_are_named_by_id_by_handle_or_by_themselves(given: Any, jobs: list[str]) -> None:
    assert make_job("next", after=given)["after"] == {"jobs": jobs, "when": "succeeded"}


def test_a_job_may_also_run_after_failures() -> None:
    made = make_job("next", after=After([FIRST], when="finished"))
    assert made["after"] == {"jobs": [FIRST], "when": "finished"}


@pytest.mark.parametrize("given", [7, [None], {"name": "work"}, [{"name": "work"}]])
def test_a_value_that_names_no_job_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="after takes IDs of jobs, handles and jobs that have an ID"):
        make_job("next", after=given)


def test_another_condition_is_refused() -> None:
    when: Any = "failed"
    with pytest.raises(ValueError, match="`when` must be one of succeeded, finished"):
        After([FIRST], when=when)
