"""Rules that invalid fields break, in words for the caller."""

from typing import Any

import pytest

from jqmaster.api.constraints.schemas import PauseRequest
from jqmaster.api.http.endpoint import check
from jqmaster.api.jobs.schemas import JobRequest
from jqmaster.errors import InvalidError
from tests.support.each import for_each

NAMES = "must be 1 to 200 of A-Z a-z 0-9 _ . : / -"
INSTANT = "must be ISO 8601 with an offset, such as 2026-11-21T04:30:00Z, not "


def rules(model: Any, **fields: Any) -> list[str]:
    with pytest.raises(InvalidError) as raised:
        check(model, fields)
    return [f"{'.'.join(map(str, one.loc))}: {one.msg}" for one in raised.value.errors]


@for_each(
    ("fields", "rule"),
    [
        ({"name": "a b"}, f"name: {NAMES}"),
        ({"max_retries": 3}, "max_retries: unknown field; did you mean max_retry?"),
        ({"max_attempts": 3},
         "max_attempts: unknown field; did you mean max_retry? It does not count the first attempt."),
        ({"countdown": 3}, "countdown: unknown field; did you mean delay?"),
        ({"maxRetry": 3}, "maxRetry: unknown field; did you mean max_retry?"),
        ({"zzz": 3}, "zzz: unknown field"),
        ({"retry": {"factr": 3}}, "retry.factr: unknown field; did you mean factor?"),
        ({"delay": "abc"}, "delay: Input should be a valid number, not the text 'abc'"),
        ({"priority": "h" * 99}, f"priority: Input should be a valid integer, not the text '{'h' * 40}'"),
        ({"run_at": "tomorrow"}, f"run_at: {INSTANT}'tomorrow'"),
        ({"run_at": "2026-13-01T00:00:00Z"}, f"run_at: {INSTANT}'2026-13-01T00:00:00Z': month must be in 1..12"),
    ],
)  # fmt: skip
def test_a_field_of_a_job_that_is_not_valid_names_its_rule_and_the_remedy(
    fields: dict[str, Any], rule: str
) -> None:
    assert rules(JobRequest, **{"name": "x", **fields}) == [rule]


def test_the_name_of_a_constraint_has_its_own_rule() -> None:
    assert rules(PauseRequest, constraint="a b") == ["constraint: must be 1 to 100 of A-Z a-z 0-9 _ . : -"]


def test_a_field_in_a_place_without_a_model_gets_no_suggestion() -> None:
    assert rules(JobRequest, name="x", unique={"key": "k", "scop": 1})[-1].startswith(
        "unique.scop: unknown field"
    )
