"""Cases that run as one test: all of them run, and each that fails is named."""

import inspect
from typing import Any

import pytest

from tests.support.each import for_each

RAN: list[Any] = []


@pytest.mark.timeout(30)
@for_each(("number", "text"), [(1, "a"), pytest.param(2, "b", id="two"), (3, "c")])
def cases(tmp_path: object, number: int, text: str) -> None:
    RAN.append((tmp_path, number, text))
    assert number == 1, f"it is {text}"


def test_all_cases_run_with_the_fixtures_and_those_that_fail_are_named() -> None:
    RAN.clear()
    with pytest.raises(AssertionError) as told:
        cases(tmp_path="there")
    assert RAN == [("there", 1, "a"), ("there", 2, "b"), ("there", 3, "c")]
    assert str(told.value).startswith("2 of 3 cases failed\ntwo:\nAssertionError: it is b")
    assert "3, 'c':\nAssertionError: it is c" in str(told.value)
    assert str(told.value.__cause__).startswith("it is b")


def test_pytest_sees_the_fixtures_and_the_marks_of_the_function_and_not_its_cases() -> None:
    assert list(inspect.signature(cases).parameters) == ["tmp_path"]
    assert [mark.name for mark in cases.pytestmark] == ["timeout"]


@for_each("number", [1, 2], ids=lambda number: f"n{number}")
async def cases_of_a_loop(number: int) -> None:
    with pytest.raises(ValueError):
        assert number < 3


async def test_a_coroutine_is_awaited_and_an_exception_that_is_missing_fails_it() -> None:
    assert inspect.iscoroutinefunction(cases_of_a_loop)
    with pytest.raises(AssertionError, match=r"2 of 2 cases failed\nn1:\n.*DID NOT RAISE"):
        await cases_of_a_loop()


async def test_an_error_that_ends_a_run_ends_it_in_the_midst_of_cases() -> None:
    @for_each("number", [1, 2])
    def stopped(number: int) -> None:
        RAN.append(number)
        raise KeyboardInterrupt

    RAN.clear()
    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert RAN == [1]


def test_a_name_that_the_function_lacks_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="lacks one of"):

        @for_each("text", ["a"])
        def wrong(number: int) -> None: ...
