"""A schema that a worker declared cannot take time or memory from the master: another process judges, and ends."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from typing import Any

import msgpack
import pytest

from jqmaster.clock import SystemClock
from jqmaster.domain.workers.contract import digest_of
from jqmaster.errors import OverloadedError
from jqmaster.service.workers import schema_judge
from jqmaster.service.workers.schema_judge import UNJUDGED, JudgeTask, SchemaJudge
from jqmaster.service.workers.schemas import BadSchemaError
from tests.domain.workers.test_schema_size import bomb

pytestmark = pytest.mark.req("J18")

NUMBER = {"type": "integer"}
# Each level of an argument is judged twice as often as the one above it.
DOUBLING = {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["a"]}] * 2 + [{"const": 5}]}


def nested(depth: int) -> Any:
    value: Any = 6
    for _ in range(depth):
        value = {"a": value}
    return value


def task(schema: Any, argument: Any) -> JudgeTask:
    text = json.dumps(schema)
    return JudgeTask({digest_of(text): text}, msgpack.packb(argument))


@pytest.fixture
async def judge() -> AsyncIterator[SchemaJudge]:
    judge = SchemaJudge(SystemClock())
    yield judge
    await judge.stop()


DEAR = {
    "alternatives of alternatives": (bomb("anyOf"), 7),
    "all of all": (bomb("allOf"), 5),
    "doubling with each level": (DOUBLING, nested(31)),
    "an error that quotes every value": ({"items": {"enum": list(range(9_000))}}, [-1] * 20_000),
    "errors that each hold the argument": ({"anyOf": [{"const": n} for n in range(2_000)]}, list(range(19_999))),
    "items that are compared with all others": (
        {"items": {"anyOf": [{"const": n} for n in range(3_000)]}}, [-1] * 20_000,
    ),
    "a pattern with a million states": ({"pattern": "^(?:[ab]*a[ab]{900}c)+$"}, "ab" * 120_000),
}  # fmt: skip


@pytest.mark.parametrize("kind", DEAR)
async def test_an_argument_that_takes_too_much_is_not_judged_and_the_next_one_is(
    judge: SchemaJudge, kind: str
) -> None:
    own_s = time.process_time()
    schema, argument = DEAR[kind]
    answers = await judge.misfits([task(NUMBER, "x"), task(schema, argument), task(NUMBER, 1)])
    assert answers[0] is not None
    assert [one.keyword for one in answers[0]] == ["type"]
    # A pattern or a comparison may also be fast enough; then there is an answer.
    assert answers[1] is UNJUDGED or len(answers[1]) <= 10
    assert answers[2] == []
    # It did not take the master's own time.
    assert time.process_time() - own_s < 1


async def test_a_schema_that_was_too_dear_is_not_asked_again(judge: SchemaJudge) -> None:
    first = await judge.misfits([task(bomb("anyOf"), 7)])
    began_s = time.monotonic()
    assert await judge.misfits([task(bomb("anyOf"), n) for n in range(1_000)]) == [UNJUDGED] * 1_000
    assert first == [UNJUDGED]
    assert time.monotonic() - began_s < 2


async def test_a_schema_that_takes_too_much_to_compile_is_refused(judge: SchemaJudge) -> None:
    patterns = [{"pattern": f"[\\pL\\pN]{{90}}{n}"} for n in range(2_000)]
    text = json.dumps({"anyOf": patterns})
    with pytest.raises(BadSchemaError, match="patterns"):
        await judge.fault(digest_of(text), text)
    assert await judge.fault("sound", json.dumps(NUMBER)) is None
    assert "regex" in str(await judge.fault("faulty", json.dumps({"pattern": "("})))


async def test_nobody_waits_longer_than_his_patience(
    judge: SchemaJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_judge, "PATIENCE_S", 0.05)
    async with judge._turn:
        with pytest.raises(OverloadedError):
            await judge.misfits([task(NUMBER, 1)])
        with pytest.raises(OverloadedError):
            await judge.fault("sound", json.dumps(NUMBER))
    monkeypatch.undo()
    assert await judge.misfits([task(NUMBER, 1)]) == [[]]


async def test_the_process_knows_no_secret_and_ends_with_the_judge(
    judge: SchemaJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JQMASTER_TOKENS", "a-secret")
    assert await judge.misfits([task(NUMBER, 1)] * 3) == [[], [], []]
    assert judge._process is not None
    pid = judge._process.pid
    with open(f"/proc/{pid}/environ", "rb") as environ:
        assert b"a-secret" not in environ.read()
    await judge.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_tasks_of_many_callers_are_all_answered(judge: SchemaJudge) -> None:
    answers = await asyncio.gather(*(judge.misfits([task(NUMBER, n), task(NUMBER, "x")]) for n in range(20)))
    assert all(first == [] and second is not None and len(second) == 1 for first, second in answers)


async def test_more_schemas_than_the_process_keeps(
    judge: SchemaJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_judge, "MAX_SCHEMAS", 3)
    for n in (*range(8), *range(8)):
        assert await judge.misfits([task({"const": n}, n)]) == [[]]
