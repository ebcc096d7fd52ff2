"""The functions generated for a task's parameters behave like the general ones."""

import enum
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_sdk import InvalidArgument, Task, Tasks
from worker_sdk.pusher.chunks import Chunker
from worker_sdk.tasks.compiled import binding_of, plain_check_of


class Word(str):
    __slots__ = ()


class Size(enum.IntEnum):
    SMALL = 1


def narrow(
    whole: int, text: str, real: float, data: bytes, flag: bool, at: datetime, maybe: int | None = None,
    either: "int | str" = 0, *, anything: Any = None,
) -> None: ...  # fmt: skip


def task_of(function: Any) -> Task[..., Any]:
    return Tasks().task("narrow")(function)


general = task_of(narrow)
general.codec._is_plain = lambda arguments: False
compiled = task_of(narrow)

FITTING = {
    "whole": 1, "text": "x", "real": 0.5, "data": b"x", "flag": True, "at": datetime(2026, 1, 1, tzinfo=UTC),
}  # fmt: skip
values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(),
    st.binary(max_size=4), st.datetimes(), st.datetimes(timezones=st.just(UTC)), st.just(Word("x")),
    st.just(Size.SMALL), st.lists(st.integers(), max_size=2),
)  # fmt: skip


def outcome(call: Any, value: Any) -> tuple[Any, Any]:
    try:
        found = call(value)
    except InvalidArgument as exc:
        return exc.problems, None
    return found, {name: type(one) for name, one in found.items()}


@pytest.mark.req("S8")
@given(st.dictionaries(st.sampled_from([*FITTING, "maybe", "either", "anything"]), values, max_size=3))
def test_arguments_are_encoded_and_decoded_alike_with_and_without_the_short_way(
    changed: dict[str, Any],
) -> None:
    arguments = {**FITTING, **changed}
    sent = outcome(general.codec.encode_arguments, arguments)
    assert outcome(compiled.codec.encode_arguments, arguments) == sent
    if sent[1] is not None:
        assert outcome(compiled.codec.decode_arguments, sent[0]) == outcome(
            general.codec.decode_arguments, sent[0]
        )


@pytest.mark.parametrize(
    "argument",
    [
        None, [], "x", {}, {**FITTING, "more": 1}, {**FITTING, 1: 1}, {**FITTING, "whole": "1"},
        {name: value for name, value in FITTING.items() if name != "text"}, {**FITTING, "maybe": "x"},
        {**FITTING, "real": 1}, {**FITTING, "anything": {"deep": [1]}},
    ],
)  # fmt: skip
def test_received_values_are_decoded_alike(argument: Any) -> None:
    assert outcome(compiled.codec.decode_arguments, argument) == outcome(
        general.codec.decode_arguments, argument
    )


def test_the_encoded_argument_is_not_the_map_of_the_caller() -> None:
    job = compiled.to_job(*FITTING.values())
    job["argument"]["whole"] = 2
    assert job.arguments["whole"] == 1
    assert compiled.codec.decode_arguments(job["argument"]) is not job["argument"]


def test_a_value_that_is_not_a_number_travels() -> None:
    assert math.isnan(task_of(lambda_of_float).to_job(math.nan)["argument"]["value"])


def lambda_of_float(value: float) -> None: ...


@pytest.mark.parametrize("kind", [list[int], Size, Word, "int | list[str]", dict])
def test_no_short_way_where_values_must_be_looked_into(kind: Any) -> None:
    kind = int | list[str] if kind == "int | list[str]" else kind
    assert plain_check_of({"x": int, "value": kind}, {"x"}) is None


def test_parameters_may_have_the_names_that_the_written_functions_use() -> None:
    bind = binding_of(["given", "bind"], ["absent", "given_", "type"], {"given"})
    assert bind(1) == {"given": 1}
    assert bind(1, 2, absent=3, given_=4, type=5) == {
        "given": 1, "bind": 2, "absent": 3, "given_": 4, "type": 5,
    }  # fmt: skip
    is_plain = plain_check_of({"given": int, "number": str, "len": bool}, {"given", "number"})
    assert is_plain is not None
    assert is_plain({"given": 1, "number": "", "len": True})
    assert not is_plain({"given": 1, "number": "", "len": 1})


def test_a_task_without_parameters() -> None:
    def nothing() -> None: ...

    task = task_of(nothing)
    assert task.to_job()["argument"] == {}
    assert task.codec.decode_arguments(None) == {}
    with pytest.raises(InvalidArgument, match="at most 0 are accepted"):
        task.to_job(1)


def test_jobs_of_one_task_share_no_value_that_can_change() -> None:
    task = task_of(narrow).using(tags=["a"], retry={"base_s": 1})
    first, second = task.to_job(*FITTING.values()), task.to_job(*FITTING.values())
    first["tags"].append("b")
    first["retry"]["base_s"] = 2
    assert (second["tags"], second["retry"]) == (["a"], {"base_s": 1})
    assert first["id"] != second["id"]


def test_a_job_of_a_task_is_sent_as_it_is_and_one_that_lost_its_id_is_made_anew() -> None:
    job = compiled.to_job(*FITTING.values())
    chunker = Chunker(None)
    chunker.add(job)
    first = chunker.take()
    assert first is not None
    assert first.ids == [job.id]
    del job["id"]
    chunker.add(job)
    second = chunker.take()
    assert second is not None
    assert second.ids != first.ids
