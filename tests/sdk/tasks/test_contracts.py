"""For each task, a worker sends masters a version, the argument's schema and the options."""

import datetime as dt
import enum
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
import pydantic
import pytest

from tests.sdk.fake_master import FakeMaster
from worker_sdk import INJECTED, Context, Depends, Tasks, Worker
from worker_sdk.tasks.contract import contract_of

pytestmark = pytest.mark.req("J18")


class Format(enum.Enum):
    PNG = "png"
    WEBP = "webp"


class Lenient(enum.Enum):
    ONE = "one"

    @classmethod
    def _missing_(cls, value: object) -> "Lenient":
        return cls.ONE


class Crop(msgspec.Struct):
    width: int
    height: int = 10


class Owner(pydantic.BaseModel):
    name: Annotated[str, pydantic.Field(pattern=r"^\w+$", description="How the owner is called.")]


@dataclass
class Folder:
    name: str
    parent: "Folder | None" = None
    words: list[str] = field(default_factory=list)


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    schema: dict[str, Any] = contract_of(Tasks().task("work")(function))["argument_schema"]
    json.dumps(schema, allow_nan=False)
    return schema


def test_a_contract_has_the_schema_of_the_parameters_and_the_options() -> None:
    @Tasks().task(
        "thumbnail.make", timeout=dt.timedelta(minutes=10), max_retry=8, tags=("photos",), retry={"base_s": 2},
        expires=60, version="2026-03",
    )  # fmt: skip
    async def make(
        photo_id: int,
        size: int = 320,
        *,
        form: Format = Format.WEBP,
        data: bytes = b"\x00",
        at: dt.datetime | None = None,
        crop: Crop | None = None,
        ctx: Context = INJECTED,
    ) -> None: ...

    assert contract_of(make) == {
        "version": "2026-03",
        "argument_schema": {
            "type": "object",
            "properties": {
                "photo_id": {"type": "integer"},
                "size": {"type": "integer", "default": 320},
                "form": {"$ref": "#/$defs/Format", "default": "webp"},
                "data": {"type": "string", "format": "byte", "contentEncoding": "base64", "default": "AA=="},
                "at": {
                    "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}],
                    "default": None,
                },
                "crop": {"anyOf": [{"$ref": "#/$defs/Crop"}, {"type": "null"}], "default": None},
            },
            "required": ["photo_id"],
            "additionalProperties": False,
            "$defs": {
                "Format": {"title": "Format", "enum": ["png", "webp"]},
                "Crop": {
                    "title": "Crop",
                    "type": "object",
                    "properties": {
                        "width": {"type": "integer"},
                        "height": {"type": "integer", "default": 10},
                    },
                    "required": ["width"],
                },
            },
        },
        "options": {
            "timeout": 600.0,
            "max_retry": 8,
            "tags": ["photos"],
            "retry": {"base_s": 2},
            "expires": 60,
        },
    }


def test_parameters_that_the_worker_gives_are_not_in_the_schema() -> None:
    def connect() -> str:
        return "connection"

    def function(ctx: Context, a: int, *, connection: str = Depends(connect)) -> None: ...

    assert schema_of(function)["properties"].keys() == {"a"}


def test_the_version_changes_with_the_schema_alone() -> None:
    def first(a: int) -> None: ...
    def moved(a: int) -> int:
        return a

    def changed(a: int | None) -> None: ...

    versions = [contract_of(Tasks().task("work")(one))["version"] for one in (first, moved, changed)]
    assert versions[0] == versions[1] != versions[2]


def test_a_task_without_required_parameters_takes_no_argument() -> None:
    def function(a: int = 1) -> None: ...

    assert schema_of(function)["type"] == ["object", "null"]


def test_classes_refer_to_themselves_and_to_each_other() -> None:
    def function(folder: Folder, owners: dict[str, Owner], best: Owner) -> None: ...

    schema = schema_of(function)
    assert schema["$defs"]["Folder"]["properties"] == {
        "name": {"type": "string"},
        "parent": {"anyOf": [{"$ref": "#/$defs/Folder"}, {"type": "null"}], "default": None},
        "words": {"type": "array", "items": {"type": "string"}, "default": []},
    }
    owner = {
        "type": "string",
        "title": "Name",
        "pattern": r"^\w+$",
        "description": "How the owner is called.",
    }
    assert schema["properties"]["best"]["properties"]["name"] == owner


def test_two_classes_of_one_name_stay_apart() -> None:
    def other() -> type:
        return msgspec.defstruct("Crop", [("ratio", float)])

    def function(a: Crop, b: Any, c: list[Crop]) -> None: ...

    function.__annotations__["b"] = other()
    schema = schema_of(function)
    assert schema["properties"]["a"] == schema["properties"]["c"]["items"] == {"$ref": "#/$defs/Crop"}
    assert schema["properties"]["b"] == {"$ref": "#/$defs/Crop_2"}
    assert schema["$defs"]["Crop_2"]["required"] == ["ratio"]


def test_an_enum_that_takes_other_values_lists_none() -> None:
    def function(a: Lenient) -> None: ...

    assert schema_of(function)["$defs"]["Lenient"] == {"title": "Lenient", "type": "string"}


@pytest.mark.parametrize(
    "pattern", ["(?<=a)b", r"(a)\1", "(?P<x>a)(?P=x)", "a(?!b)", "a(?=b)", "(?>a)", "a++", r"a\Z"]
)
def test_a_pattern_that_takes_more_than_linear_time_is_left_out(pattern: str) -> None:
    def function(a: str, b: str) -> None: ...

    function.__annotations__["a"] = Annotated[str, msgspec.Meta(pattern=pattern)]
    function.__annotations__["b"] = Annotated[str, pydantic.Field(pattern=r"^\d+\.\d+$")]
    assert schema_of(function)["properties"] == {
        "a": {"type": "string"},
        "b": {"type": "string", "pattern": r"^\d+\.\d+$"},
    }


def test_a_default_that_json_lacks_is_left_out() -> None:
    def function(a: float = float("nan"), b: Any = Any) -> None: ...

    assert schema_of(function)["properties"] == {"a": {"type": "number"}, "b": {}}


async def test_a_worker_tells_the_contracts_of_its_tasks(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    one = Tasks()

    @one.task("told", priority=3)
    def told(a: int) -> None: ...

    @one.task("silent")
    def silent(a: Annotated[int, pydantic.WithJsonSchema({"minimum": float})]) -> None: ...

    worker.run_tasks(one)
    await up()
    assert master.worker["contracts"] == {"told": contract_of(told)}
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        "no contract of silent is reported to masters"
    ]


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (
            {"code": "invalid", "errors": [{"loc": ["contracts", "a", "argument_schema"], "msg": "bad"}]},
            ["b"],
        ),
        ({"code": "invalid", "errors": [{"loc": ["contracts", "a"]}, {"loc": ["contracts", "b"]}]}, []),
        ({"code": "invalid", "errors": [{"loc": ["contracts"], "msg": "unknown field"}]}, []),
        ({"code": "too_many_nodes"}, []),
        ({"code": "body_too_large"}, []),
    ],
)
async def test_a_worker_leaves_out_the_contracts_that_a_master_refuses(
    master: FakeMaster, worker: Worker, up: Callable[[], Any], problem: dict[str, Any], told: list[str]
) -> None:
    one = Tasks()

    @one.task("a")
    def a(n: int) -> None: ...

    @one.task("b")
    def b(n: int) -> None: ...

    def refuse(body: Any) -> Any:
        return (422, problem, {}) if "a" in body.get("contracts", ()) else None

    master.hooks["workers"] = refuse
    worker.run_tasks(one)
    await up()
    assert sorted(master.worker.get("contracts", ())) == told
    assert sorted(master.worker["names"]) == ["a", "b"]
