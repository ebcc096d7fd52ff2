"""Maps with keys of other types than text travel as the annotation says, or are refused before they are sent."""

import datetime
import enum
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest

from worker_sdk import InvalidArgument, Task, Tasks, Worker
from worker_sdk.testing import drain, inline, recording
from worker_sdk.wire import decode, encode

pytestmark = pytest.mark.req("S3")


class Color(enum.Enum):
    RED = "red"


@dataclass
class InDataclass:
    rows: dict[int, str]


class InModel(pydantic.BaseModel):
    rows: dict[uuid.UUID, int]


class InStruct(msgspec.Struct):
    rows: dict[datetime.date, int]


SOME_ID = uuid.uuid4()
TYPED: list[tuple[Any, Any]] = [
    (dict[int, str], {1: "a", 2**40: "b"}),
    (dict[float, int], {1.5: 1}),
    (dict[uuid.UUID, int], {SOME_ID: 1}),
    (dict[datetime.date, int], {datetime.date(2026, 1, 2): 1}),
    (dict[Color, int], {Color.RED: 1}),
    (list[dict[int, dict[int, int]]], [{1: {2: 3}}]),
    (dict[int, str] | None, {1: "a"}),
    (Counter[int], Counter([1, 1, 2])),
    (InDataclass, InDataclass({1: "a"})),
    (InModel, InModel(rows={SOME_ID: 1})),
    (InStruct, InStruct({datetime.date(2026, 1, 2): 1})),
]


def task_of(annotation: Any) -> Task[..., Any]:
    def echo(value: Any) -> Any:
        return value

    echo.__annotations__ = {"value": annotation, "return": annotation}
    return Tasks().task("echo", keep_result=True)(echo)


def keys_of(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [key for one, part in value.items() for key in (one, *keys_of(part))]
    return [key for part in value for key in keys_of(part)] if isinstance(value, list) else []


@pytest.mark.parametrize(("annotation", "value"), TYPED)
def test_the_annotation_brings_the_keys_back(annotation: Any, value: Any) -> None:
    task = task_of(annotation)
    sent = decode(encode(task.to_job(value)["argument"]))
    assert keys_of(sent)
    assert {type(key) for key in keys_of(sent)} == {str}
    with inline():
        assert task.enqueue(value).get() == value


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        (Any, {"a": [{1: 2}]}, r"value\['a'\]\[0\]: has a key of type int"),
        (dict, {1: 2}, "value: has a key of type int"),
        (dict[str, Any], {"a": {None: 1}}, "value"),
        (Any, {(1, 2): 3}, "value: "),
    ],
)
def test_other_keys_are_refused_before_they_are_sent(annotation: Any, value: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"echo: {problem}"):
        task_of(annotation).to_job(value)


def test_a_result_with_such_keys_says_where() -> None:
    tasks = Tasks()

    @tasks.task("untyped", max_retry=0)
    def untyped() -> Any:
        return {"rows": {1: 2}}

    with recording() as jobs:
        untyped.enqueue()
        [run] = drain(jobs, raises=False)
    assert run.state == "failed"
    assert run.fields
    assert "result['rows'] has a key of type int" in run.fields["message"]


def test_keys_that_are_tuples_are_refused_at_the_start_of_a_worker() -> None:
    tasks = Tasks()

    @tasks.task("by_place")
    def by_place(rows: dict[tuple[int, int], int]) -> None: ...

    with pytest.raises(TypeError, match=r"parameter rows has the type .*only texts can be sent as keys"):
        _ = Worker(tasks=tasks).names


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**70, "value: is an integer beyond 64 bits"),
        ([{"at": datetime.datetime(2026, 1, 1)}], r"value\[0\]\['at'\]: is a datetime without a time zone"),
        ("\ud800", "value: is a str that has no UTF-8 form"),
    ],
)
def test_a_value_without_a_form_is_an_invalid_argument_of_the_task(value: Any, problem: str) -> None:
    with recording(), pytest.raises(InvalidArgument, match=f"echo: {problem}"):
        task_of(Any).enqueue(value)
