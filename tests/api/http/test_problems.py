"""Problems: one status per class, bounded, without the input and without internals."""

import json
import logging
import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any, Literal

import httpx
import msgpack
import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from jqmaster import errors
from jqmaster.api.constraints import schemas as constraint_schemas
from jqmaster.api.encoding.negotiation import Encoding, NotAcceptableError
from jqmaster.api.http.problems import (
    MAX_PROBLEM_BYTES,
    STATUS,
    echo,
    edge_problem,
    invalid_from,
    problem_response,
)
from jqmaster.api.http.rules import BINARY_RULE
from jqmaster.api.jobs import outcome_schemas
from jqmaster.api.jobs import schemas as job_schemas
from jqmaster.api.workers import schemas as fleet_schemas
from jqmaster.errors import FieldError, InvalidError, JqmasterError
from tests.support import real_time
from tests.support.master import Api

pytestmark = real_time.MASTER


def read(response: Response) -> dict[str, Any]:
    body = bytes(response.body)
    assert len(body) <= MAX_PROBLEM_BYTES
    problem: dict[str, Any] = (
        json.loads(body) if "json" in response.headers["content-type"] else msgpack.unpackb(body)
    )
    assert set(problem) == {"type", "title", "status", "detail", "code", "errors"}
    assert problem["status"] == response.status_code
    return problem


EXPECTED = {
    errors.UnparsableError: 400,
    errors.UnauthorizedError: 401,
    errors.ForbiddenError: 403,
    errors.NotFoundError: 404,
    NotAcceptableError: 406,
    errors.ConflictError: 409,
    errors.TooLargeError: 413,
    errors.UnsupportedMediaTypeError: 415,
    errors.OtherStoreError: 421,
    errors.InvalidError: 422,
    errors.AddressRefusedError: 422,
    errors.RateLimitedError: 429,
    errors.OverloadedError: 503,
    errors.StoreUnavailableError: 503,
    errors.StoreRefusedError: 503,
    errors.OutcomeUnknownError: 503,
}


@pytest.mark.parametrize("cls", EXPECTED, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("encoding", Encoding)
def test_each_class_has_its_status_and_keeps_its_code(cls: type[JqmasterError], encoding: Encoding) -> None:
    response = problem_response(cls("why", errors=[FieldError(("jobs", 3, "name"), "too long")]), encoding)
    problem = read(response)
    assert response.status_code == EXPECTED[cls]
    assert problem["code"] == cls.code
    assert problem["detail"] == "why"
    assert problem["errors"] == [{"loc": ["jobs", 3, "name"], "msg": "too long"}]
    content_type = "application/msgpack" if encoding is Encoding.MSGPACK else "application/problem+json"
    assert response.headers["content-type"] == content_type


# The arguments with which an error is made.
GIVEN: dict[type, tuple[str, ...]] = {
    errors.NotUniqueError: ("held", "a job"),
    errors.OfferUnderWayError: ("held", "a job"),
    errors.ArchiveUnavailableError: ("the archive is away",),
    errors.NamespaceUnavailableError: ("namespace shop is being moved",),
}


def test_every_error_that_is_no_fault_of_ours_has_a_status_below_500() -> None:
    ours = {
        errors.ArchiveDamagedError,
        errors.DamagedError,
        errors.StoreUnfitError,
        errors.DataDirInUseError,
        JqmasterError,
    }
    classes = {
        cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, JqmasterError)
    }
    for cls in classes - ours:
        error = cls(*GIVEN.get(cls, ()))
        status = problem_response(error, Encoding.JSON).status_code
        assert status < 500 or status == 503, cls
    # These classes take the status of their base class.
    assert set(STATUS) >= classes - {
        errors.AddressRefusedError,
        errors.DataDirInUseError,
        errors.NotUniqueError,
        errors.OfferUnderWayError,
        errors.StoreRefusedError,
    }


@pytest.mark.parametrize(("given", "told"), [(None, "1"), (0.0, "1"), (0.2, "1"), (2.1, "3"), (60, "60")])
@pytest.mark.parametrize(
    "cls", [errors.RateLimitedError, errors.StoreUnavailableError, errors.OutcomeUnknownError]
)
def test_callers_that_may_come_again_are_told_when(
    cls: type[JqmasterError], given: float | None, told: str
) -> None:
    assert problem_response(cls(retry_after_s=given), Encoding.JSON).headers["retry-after"] == told


def test_unknown_callers_are_told_how_to_log_in() -> None:
    assert problem_response(errors.UnauthorizedError(), Encoding.JSON).headers["www-authenticate"] == "Bearer"


def test_unknown_paths_and_methods_tell_the_remedy_and_not_the_path() -> None:
    missing = problem_response(HTTPException(404, "secret path"), Encoding.MSGPACK)
    assert read(missing) == {
        "type": "about:blank", "title": "Not Found", "status": 404,
        "detail": "no such path; GET /openapi.json lists all paths", "code": "not_found", "errors": [],
    }  # fmt: skip
    wrong = problem_response(HTTPException(405, headers={"Allow": "GET, POST"}), Encoding.JSON)
    assert wrong.headers["allow"] == "GET, POST"
    assert read(wrong)["code"] == "method_not_allowed"
    assert read(wrong)["detail"] == "this path accepts only GET, POST"


def test_an_unforeseen_error_is_logged_and_only_its_incident_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    try:
        raise RuntimeError("redis://user:hunter2@store")
    except RuntimeError as error:
        response = problem_response(error, Encoding.JSON)
    problem = read(response)
    assert response.status_code == 500
    assert b"hunter2" not in bytes(response.body)
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert problem["detail"] == record.getMessage()


def test_a_problem_stays_small_whatever_it_is_about() -> None:
    many = [
        FieldError(("jobs", n, "\N{RIGHT-TO-LEFT OVERRIDE}" * 1000), "\x1b[31m" * 1000) for n in range(10_000)
    ]
    for encoding in Encoding:
        problem = read(problem_response(InvalidError("\0" * 100_000, errors=many), encoding))
        *named, last = problem["errors"]
        assert len(named) >= 5
        assert last["msg"] == f"and {10_000 - len(named)} more"
        assert len(named[0]["loc"][2]) <= 64
        assert (json.dumps(problem)).isascii()


class Retry(BaseModel):
    base_s: float = Field(gt=0, allow_inf_nan=False)


class Push(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str = Field(pattern="^[a-z]+$")
    priority: int = 0
    retry: Retry | None = None


def test_each_field_and_rule_is_named_and_no_input_repeated() -> None:
    bait = "<script>" * 100
    with pytest.raises(ValidationError) as error:
        Push.model_validate({"name": bait, "priority": True, "retry": {"base_s": -1}, bait: 1})
    problem = read(problem_response(error.value, Encoding.JSON))
    assert problem["status"] == 422
    assert {e["loc"][0] for e in problem["errors"]} >= {"name", "priority", "retry"}
    assert "pydantic" not in json.dumps(problem)
    assert json.dumps(problem).count("<script>") <= 8
    prefixed = invalid_from(error.value, ("jobs", 7))
    assert all(e.loc[:2] == ("jobs", 7) for e in prefixed.errors)


class One(BaseModel):
    type: Literal["one"]


class Two(BaseModel):
    type: Literal["two"]


class Either(BaseModel):
    value: Annotated[One | Two, Field(discriminator="type")]


def test_an_unknown_tag_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as error:
        Either.model_validate({"value": {"type": "x" * 1000}})
    [field] = invalid_from(error.value).errors
    assert field.loc == ("value",)
    assert field.msg == "must be one of 'one', 'two'"


def test_no_rule_names_a_class_of_the_code() -> None:
    def below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
        for one in model.__subclasses__():
            yield one
            yield from below(one)

    models = [one for one in below(BaseModel) if one.__module__.startswith("jqmaster.api.")]
    topics = (job_schemas, fleet_schemas, outcome_schemas, constraint_schemas)
    assert {topic.__name__ for topic in topics} <= {one.__module__ for one in models}
    assert constraint_schemas.RateRequest in models
    names = re.compile("|".join(rf"\b{one.__name__}\b" for one in models))
    rules = set()
    for model in models:
        odd_values: tuple[object, ...] = (
            "text",
            1,
            [],
            {field: odd for odd in ("text", ["text"]) for field in model.model_fields},
        )
        for value in odd_values:
            try:
                model.model_validate(value)
            except ValidationError as error:
                rules |= {one.msg for one in invalid_from(error).errors}
    assert "must be a map (in JSON: an object)" in rules
    assert [rule for rule in rules if names.search(rule) or "instance" in rule] == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\nb", "a\\nb"),
        ("\u202e", "\\u202e"),
        (3, "3"),
        (b"x", "bytes"),
        ({"a": 1}, "dict"),
        ("x" * 65, "x" * 61 + "..."),
    ],
)
def test_input_is_echoed_escaped_and_short(value: object, shown: str) -> None:
    assert echo(value) == shown


def test_bytes_that_were_no_request_get_a_problem_too() -> None:
    problem = msgpack.unpackb(edge_problem(HTTPStatus.REQUEST_TIMEOUT, "receipt_deadline"))
    assert (problem["status"], problem["code"]) == (408, "receipt_deadline")


async def test_text_that_is_sent_as_binary_is_called_so(api: Api) -> None:
    """Some libraries write every string as `bin`: the error says so, and does not call a valid text invalid."""
    registration = {"url": None, "names": ["work"], "max_jobs": 1, "secret": "s" * 32}
    for field, value in {
        "node_id": b"host",
        "secret": b"s" * 32,
        "names": [b"work"],
        "labels": {"a": b"b"},
    }.items():
        status, problem = await api.call("POST", "/api/workers", {**registration, field: value})
        assert status == 422
        [error] = problem["errors"]
        assert error["loc"][0] == field
        assert error["msg"] == BINARY_RULE
        assert problem["detail"] == f"{'.'.join(map(str, error['loc']))}: {BINARY_RULE}"
    status, problem = await api.call("POST", "/api/jobs", {"name": "work", "run_at": b"2026-11-21T04:30:00Z"})
    assert (status, problem["detail"]) == (422, f"run_at: {BINARY_RULE}")
    # The message about a number does not mention text.
    status, problem = await api.call("POST", "/api/workers", {**registration, "max_jobs": b"1"})
    assert (status, problem["detail"]) == (422, "max_jobs: Input should be a valid integer")
    status, problem = await api.call("POST", "/api/workers", {**registration, b"node_id": "host"})
    assert (status, problem["code"]) == (400, "key_not_str")
    assert "bin is not text" in problem["detail"]


async def test_the_detail_says_the_first_error_and_how_many_follow(api: Api) -> None:
    status, problem = await api.call("POST", "/api/jobs", {"name": "work", "priority": "high", "delay": -1})
    assert status == 422
    assert problem["detail"] == "priority: Input should be a valid integer, not the text 'high' (and 1 more)"
    assert [error["loc"] for error in problem["errors"]] == [["priority"], ["delay"]]


async def test_callers_that_name_no_type_read_json(api: Api) -> None:
    """curl, browsers and the like get JSON, also for errors; a MessagePack body is answered in MessagePack."""
    async with httpx.AsyncClient(base_url=api.http.base_url, trust_env=False) as http:
        for accept in ("*/*", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"):
            answer = await http.get("/api/stats", headers={"Accept": accept})
            assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
            missing = await http.get("/api/nothing", headers={"Accept": accept})
            assert missing.headers["content-type"] == "application/problem+json"
            assert missing.json()["code"] == "not_found"
        untyped = await http.post("/api/jobs", content=b'{"name": "work"}')
        assert (untyped.status_code, untyped.headers["content-type"]) == (415, "application/problem+json")
        assert "application/json" in untyped.json()["detail"]
        packed = await http.post(
            "/api/jobs",
            content=msgpack.packb({"name": "work"}),
            headers={"Content-Type": "application/msgpack"},
        )
        assert (packed.status_code, packed.headers["content-type"]) == (201, "application/msgpack")
