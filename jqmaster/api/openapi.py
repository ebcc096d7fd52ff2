"""The OpenAPI documents, from the routes and the models: `openapi/jqmaster.yaml` and `openapi/worker.yaml`.

`python -m jqmaster.api.openapi --write` rewrites them and what is generated from them; a test fails on a difference.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml
from apispec import APISpec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from jqmaster import __version__
from jqmaster.api import schemas, worker_schemas
from jqmaster.api.endpoint import Operation
from jqmaster.api.routes import OPERATIONS

MEDIA_TYPES: Final = ("application/msgpack", "application/json")
_REF: Final = "#/components/schemas/{model}"
_EXAMPLE_ID: Final = "0198c3f4-5e6a-7b8c-9d0e-1f2a3b4c5d6e"
_COMMON_PROBLEMS: Final = (400, 401, 403, 406, 408, 413, 414, 415, 422, 429, 431, 503)

MASTER_TEXT: Final = """The master takes jobs, keeps them safe and pushes them to workers.

Bodies are MessagePack, or JSON where the client says so; in JSON binary is `{"$bin": base64}` and extension types are
`{"$ext": [code, base64]}`. Errors are problems (RFC 9457). A 503 with code `outcome_unknown` may have happened: repeat
it with the same ID."""

WORKER_TEXT: Final = """What a worker serves. It registers with `POST /api/workers` of a master, reports with heartbeats and results,
and gets jobs pushed. docs/worker_protocol.md tells the whole exchange.

Every call but `/ping` and `/challenge` is signed: `X-JQ-Signature: v1=` and the hex HMAC-SHA256, under the worker's
secret, of METHOD, path, worker ID, timestamp, nonce and the hex SHA-256 of the body, joined by line feeds. A wrong, old
(300 s) or repeated one is answered 401, and nothing runs."""


@cache
def master_document() -> dict[str, Any]:
    """`openapi/jqmaster.yaml` as data."""
    spec = APISpec(
        "jqmaster",
        __version__,
        "3.1.0",
        info={"description": MASTER_TEXT, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
    )
    models = [m for op in OPERATIONS for m in (op.request, *op.responses.values()) if m is not None]
    _add_schemas(spec, [*models, schemas.Problem])
    spec.components.security_scheme(
        "bearer",
        {
            "type": "http",
            "scheme": "bearer",
            "description": "Scopes: push, work, read, operate, admin. Without configured tokens the master serves its own machine only.",
        },
    )
    problem = {"schema": {"$ref": _REF.format(model="Problem")}}
    spec.components.response(
        "Problem",
        {
            "description": "A problem (RFC 9457)",
            "content": dict.fromkeys(("application/msgpack", "application/problem+json"), problem),
        },
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _master_operation(operation)
    for path, operations in paths.items():
        spec.path(path, operations=operations)
    return _plain(spec.to_dict())


@cache
def worker_document() -> dict[str, Any]:
    """`openapi/worker.yaml` as data."""
    w = worker_schemas
    spec = APISpec(
        "jqmaster worker",
        __version__,
        "3.1.0",
        info={"description": WORKER_TEXT, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
    )
    _add_schemas(
        spec,
        [
            w.PushRequest,
            w.PushAnswer,
            w.CancelOrder,
            w.ChallengeRequest,
            w.ChallengeAnswer,
            w.WorkerStatus,
            w.DrainOrder,
        ],
    )
    spec.components.security_scheme("signature", {"type": "apiKey", "in": "header", "name": "X-JQ-Signature"})
    push_example = {
        "worker_id": "0198c3f4-5e6a-7b8c-9d0e-000000000001", "epoch": 1795238640123, "store_time_ms": 1795238645000,
        "jobs": [{
            "job_id": _EXAMPLE_ID, "attempt": 1, "token": "9f86d081884c7d659a2feaa0c55ad015", "fence": 1795238645000, "phase": "run",
            "name": "mail.send", "argument": {"user_id": 42}, "timeout": 30.0, "not_after_ms": 1795238650000,
            "lease_until_ms": 1795238660000, "headers": {},
        }],
    }  # fmt: skip
    order = {200: ("Done", None), 401: ("The signature is wrong, old or repeated; nothing ran", None)}
    spec.path(
        "/jobs",
        operations={
            "post": _worker_operation(
                "Offer jobs",
                w.PushRequest,
                {
                    200: ("What the worker takes", w.PushAnswer),
                    **_but_ok(order),
                    413: ("The body is too large", None),
                },
                push_example,
            )
        },
    )
    spec.path(
        "/jobs/{job_id}/cancel",
        operations={
            "post": _worker_operation(
                "Stop a job",
                w.CancelOrder,
                {**order, 404: ("No job with this token runs here", None)},
                {"token": "9f86d081884c7d659a2feaa0c55ad015", "epoch": 1795238640123},
                parameters=[_path_parameter("job_id")],
            )
        },
    )
    spec.path(
        "/status",
        operations={
            "get": _worker_operation(
                "What the worker does", None, {200: ("Its state", w.WorkerStatus), **_but_ok(order)}
            )
        },
    )
    spec.path("/drain", operations={"post": _worker_operation("Take no more jobs", w.DrainOrder, order)})
    spec.path(
        "/ping",
        operations={
            "get": _worker_operation("Whether it lives", None, {204: ("It lives", None)}, signed=False)
        },
    )
    spec.path(
        "/challenge",
        operations={
            "post": _worker_operation(
                "Prove the address",
                w.ChallengeRequest,
                {200: ("The proof", w.ChallengeAnswer), 422: ("The nonce is not of the form", None)},
                {"nonce": "q2Zr8bXkT1mW5yUe"},
                signed=False,
            )
        },
    )
    return _plain(spec.to_dict())


def _master_operation(op: Operation) -> dict[str, Any]:
    parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", op.path)]
    parameters += [
        {"name": name, "in": "query", "required": False, **described} for name, described in op.query.items()
    ]
    if op.method == "POST" and op.path == "/api/jobs":
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
                "description": "Makes the push safe to repeat, like a client-chosen id.",
            }
        )
    responses: dict[str, Any] = {}
    for status, model in op.responses.items():
        schema: Any = {} if model is None else {"$ref": _REF.format(model=model.__name__)}
        if op.path.endswith("/result") and status == 200:
            schema = {
                "anyOf": [schema, {"type": "null"}],
                "description": "null: discarded, not kept, or unknown.",
            }
        response: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        if status != HTTPStatus.NO_CONTENT:
            response["content"] = {media: {"schema": schema} for media in MEDIA_TYPES}
        responses[str(status)] = response
    for status in sorted(
        {*op.problems, *(_COMMON_PROBLEMS if op.access else (400, 406, 408, 414, 422, 431, 503))}
        - set(op.responses)
    ):
        responses[str(status)] = {"$ref": "#/components/responses/Problem"}
    described: dict[str, Any] = {
        "operationId": op.handler.__module__.rpartition(".")[2] + "_" + op.handler.__name__,
        "summary": op.summary,
        "tags": [op.tag],
        "parameters": parameters,
        "responses": responses,
        "security": [{"bearer": [op.access.value]}, {}] if op.access else [{}],
    }
    if op.request:
        described["requestBody"] = _body(op.request)
    return described


def _worker_operation(
    summary: str,
    request: type[BaseModel] | None,
    responses: Mapping[int, tuple[str, type[BaseModel] | None]],
    example: Any = None,
    *,
    parameters: Sequence[dict[str, Any]] = (),
    signed: bool = True,
) -> dict[str, Any]:
    headers = [
        ("X-JQ-Worker", "The worker's ID."),
        ("X-JQ-Timestamp", "Unix time in ms."),
        ("X-JQ-Nonce", "Not seen before."),
    ]
    described: dict[str, Any] = {
        "operationId": summary.lower().replace(" ", "_"),
        "summary": summary,
        "parameters": [*parameters, *({"name": n, "in": "header", "required": True, "schema": {"type": "string"}, "description": d} for n, d in headers if signed)],
        "responses": {
            str(status): {"description": text} | ({"content": {MEDIA_TYPES[0]: {"schema": {"$ref": _REF.format(model=model.__name__)}}}} if model else {})
            for status, (text, model) in responses.items()
        },
        "security": [{"signature": []}] if signed else [{}],
    }  # fmt: skip
    if request:
        described["requestBody"] = _body(request, media_types=MEDIA_TYPES[:1], example=example)
    return described


def _body(
    model: type[BaseModel], *, media_types: Sequence[str] = MEDIA_TYPES, example: Any = None
) -> dict[str, Any]:
    content: dict[str, Any] = {"schema": {"$ref": _REF.format(model=model.__name__)}}
    if example is not None:
        content["example"] = example
    return {"required": True, "content": dict.fromkeys(media_types, content)}


def _path_parameter(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "example": _EXAMPLE_ID,
    }


def _but_ok(responses: dict[int, tuple[str, None]]) -> dict[int, tuple[str, None]]:
    return {status: response for status, response in responses.items() if status != HTTPStatus.OK}


def _add_schemas(spec: APISpec, models: Sequence[type[BaseModel]]) -> None:
    unique = list(dict.fromkeys(models))
    _, definitions = models_json_schema([(model, "validation") for model in unique], ref_template=_REF)
    for name, schema in sorted(definitions["$defs"].items()):
        spec.components.schema(name, schema)


def _plain(document: Any) -> Any:
    """Without aliases and ordered as built, so that the files read well and differ only where something changed."""
    if isinstance(document, Mapping):
        return {str(key): _plain(value) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [_plain(value) for value in document]
    return document


def as_yaml(document: Mapping[str, Any]) -> str:
    """The text of the committed file."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)


def write(directory: Path) -> None:
    (directory / "jqmaster.yaml").write_text(as_yaml(master_document()))
    (directory / "worker.yaml").write_text(as_yaml(worker_document()))


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit("usage: python -m jqmaster.api.openapi --write")
    write(Path(__file__).parents[2] / "openapi")
