"""The OpenAPI documents `openapi/jqmaster.yaml` and `openapi/worker.yaml`, generated from the routes and the
models.

`python -m jqmaster.spec.openapi --write` rewrites them, and the files that are generated from them. A test fails
if a file differs."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, get_args

import yaml
from apispec import APISpec
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from jqmaster import __version__
from jqmaster.api import schemas
from jqmaster.api.constraints import schemas as constraint_schemas
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.http.problem_codes import CODES
from jqmaster.api.jobs import schemas as job_schemas
from jqmaster.api.operations import stats_schemas
from jqmaster.api.routes import OPERATIONS
from jqmaster.api.workers import push_schemas as w
from jqmaster.domain.identity.access import Scope
from jqmaster.spec import protocol_generator, typescript_generator
from jqmaster.spec.examples import EXAMPLES
from jqmaster.spec.examples.values import (
    ACTION_ID,
    BATCH_ID,
    DELIVERY_ID,
    EVENT_ID,
    INCIDENT_ID,
    JOB_ID,
    MASTER_ID,
    REQUEST_ID,
    REQUEST_SHOWN,
    SESSION_ID,
    SLOT_RULE_ID,
    TOKEN_ID,
    WORKER_ID,
)

MSGPACK: Final = "application/msgpack"
# Put JSON first. Generated clients use the first type in the list, and most can write only JSON.
MEDIA_TYPES: Final = ("application/json", MSGPACK)
EVENT_STREAM: Final = "text/event-stream"
PROBLEM_MEDIA_TYPES: Final = ("application/problem+json", MSGPACK)
TEXT: Final = "text/plain"
PAGE: Final = "text/html"
_REF: Final = "#/components/schemas/{model}"
_INFO: Final = {"license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}}

_SERVERS: Final = [
    {"url": "/", "description": "The master that serves this document, with the namespace `default`."},
    {
        "url": "/ns/{namespace}",
        "description": (
            "Another namespace of the same master. A call below this path may also get 404 "
            "`unknown_namespace`, or 503 while the namespace is not served."
        ),
        "variables": {"namespace": {"default": "default", "description": "Name of the namespace."}},
    },
]
_WORKER_SERVERS: Final = [
    {
        "url": "{url}",
        "description": "The address that the worker registered.",
        "variables": {"url": {"default": "http://127.0.0.1:9000"}},
    }
]

# Status codes of problems: of all requests before their handler runs, of requests with a credential, and of
# requests with a body.
_ANY_PROBLEMS: Final = (400, 406, 408, 414, 421, 422, 431, 503)
_ACCESS_PROBLEMS: Final = (401, 403, 404)
_BODY_PROBLEMS: Final = (413, 415)

MASTER_TEXT: Final = (
    "The master accepts jobs, stores them safely and pushes them to workers.\n\n"
    "A request body is JSON or MessagePack, according to its `Content-Type`. The type of MessagePack is "
    "`application/msgpack`. `application/vnd.msgpack` and `application/x-msgpack` mean the same. The answer has the type "
    "that `Accept` names. If `Accept` names neither, the answer has the type of the request body, or JSON if there was "
    'none. In JSON, binary is `{"$bin": base64}` and extension types are `{"$ext": [code, base64]}`. Extension codes are '
    "0 to 127, and -1 for a timestamp. The other negative codes are refused, because MessagePack reserves them.\n\n"
    "Errors are problems (RFC 9457). docs/errors.md lists their codes. A request that gets 503 with the code "
    "`outcome_unknown` may have taken effect. Repeat it with the same ID. `X-Request-ID` identifies a request in answers "
    "and logs. You can send this header. If you do not, each problem gets a generated ID. `JQ-Store` in each answer names "
    "the master's store. If a client sends this header back, a master of another store refuses the request (421, "
    "`other_store`). This protects a client if the master's address was reassigned."
)
WORKER_TEXT: Final = (
    "The API that a worker serves. A worker registers with `POST /api/workers` at a master, reports with "
    "heartbeats and results, and receives jobs by push. docs/worker_protocol.md describes the whole "
    "exchange.\n\nEvery call except `/ping` and `/challenge` is signed. `X-JQ-Signature` is `v1=`, followed "
    "by a hex HMAC-SHA256 with the worker's secret as the key. The signed text consists of METHOD, path, "
    "worker ID, timestamp, nonce and the hex SHA-256 of the body, joined by line feeds. The path is the raw "
    "path of the request, including the prefix of the worker's URL. If a signature is wrong, older than 300 "
    "s or repeated, the worker answers 401 and runs nothing."
)

_PARAMETERS: Final = {
    "job_id": ("ID of the job.", JOB_ID),
    "action_id": ("ID of the action.", ACTION_ID),
    "batch_id": ("ID of the batch.", BATCH_ID),
    "rule_id": ("ID of the slot rule.", SLOT_RULE_ID),
    "event_id": ("ID of the event.", EVENT_ID),
    "master_id": ("ID of the master.", MASTER_ID),
    "incident_id": ("ID of the incident.", INCIDENT_ID),
    "worker_id": ("ID from the registration.", WORKER_ID),
    "group_id": ("`id` of the failure group.", "5f0c2a9b71d3e846"),
    "source": ("Name of the source.", "app.tasks:tasks"),
    "job_name": ("Job name. It may contain slashes.", "mail.send"),
    "token_id": ("ID of the token.", TOKEN_ID),
    "user": ("Name of the user.", "ada"),
    "request_id": ("Request ID of the challenge.", REQUEST_ID),
    "request": (
        ("The field `request` of the challenge, which is the public part of its request ID."),
        REQUEST_SHOWN,
    ),
    "delivery_id": ("ID of the delivery, as the list of deliveries shows it.", DELIVERY_ID),
    "session_id": ("ID of the login, as `GET /api/sessions` shows it.", SESSION_ID),
}
# `{name}` in a path, by the part of the path before it.
_NAMES: Final = {
    "/api/calendars": ("Name of the calendar.", "japan"),
    "/api/constraints": ("Name of the constraint.", "api.example.org"),
    "/api/definitions": ("Name of the definition.", "nightly-report"),
    "/api/namespaces": ("Name of the namespace.", "shop"),
    "/api/notices": ("Name of the notice.", "failures"),
    "/api/targets": ("Name of the target.", "shop"),
}
_IDEMPOTENCY_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "description": (
        "Makes the push safe to repeat for 24 hours, even after its job is over and removed. "
        "Each token and each user has separate keys. A rotated token keeps its keys."
    ),
}
_JOBS_AFTER: Final = {
    "name": "JQ-Jobs-After",
    "in": "header",
    "required": False,
    "schema": {"type": "integer", "minimum": 0, "maximum": 9999999999999999},
    "description": (
        "The newest fence of all jobs that came with answers to reports. The first value is 0. "
        "Without this header, the answer contains no jobs."
    ),
    "example": 0,
}
_ANY_BODY: Final = {
    "description": "Any body. The master does not interpret it.",
    "content": {"*/*": {"schema": {}, "example": {"order": "A-17", "status": "shipped"}}},
}
_CALLBACK_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 255},
    "description": (
        "Distinguishes callbacks with equal bodies, if several callbacks are expected. Without "
        "this header, the body itself is the key."
    ),
}
_ASKED_DURABILITY: Final = {
    "name": "JQ-Durability",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "enum": ["besteffort", "fsync", "fsync+quorum"]},
    "description": (
        "Durability that this push needs, higher or lower than the configured level. If the "
        "store cannot provide it, the answer is 503 `durability_unavailable` and nothing is "
        "stored."
    ),
}
_IF_MATCH: Final = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": (
        "ETags in quotes, or *. The change is applied only if the object still has one of these "
        "ETags. Otherwise, the answer is 412."
    ),
}
_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "*: only create a new object. If the object exists, the answer is 412.",
}
_STORE: Final = {
    "name": "JQ-Store",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "The caller's store, as named in an earlier answer. If this master has another store, the answer is 421.",
}
_ETAG: Final = {
    "ETag": {"description": "Version tag that changes with every change.", "schema": {"type": "string"}}
}
_RETRY_AFTER: Final = {
    "Retry-After": {
        "description": "Seconds to wait before the next try.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_DURABILITY: Final = {
    "JQ-Durability": {
        "description": (
            "Durability with which the job was accepted. With besteffort, a power cut or a crash "
            "of the store can lose the job. With fsync, only the loss of the store's machine can "
            "lose it."
        ),
        "schema": {"type": "string", "enum": ["besteffort", "fsync", "fsync+quorum"]},
    }
}
_FINDINGS: Final = {
    "JQ-Unserved-Names": {
        "description": (
            "Up to 10 names in this request that no worker has ever served, separated by commas "
            "and spaces. A name may be misspelt, or its first worker may not have started yet. "
            "The jobs wait. Missing if there is no such name."
        ),
        "required": False,
        "schema": {"type": "string"},
    },
    "JQ-Warning": {
        "description": (
            "With the setting `check_arguments: report`, codes of the faults, separated by "
            "commas and spaces: `invalid_argument`, `unserved_name`, `unchecked_argument`. "
            "Missing if there are no faults."
        ),
        "required": False,
        "schema": {"type": "string"},
    },
}
_JOB_ID: Final = {
    "JQ-Job-Id": {
        "description": (
            "ID of the job in the answer. Compare it with the requested ID to detect answers "
            "that a proxy has mixed up. Missing if the requested ID is not valid."
        ),
        "required": False,
        "schema": {"type": "string"},
    }
}
_ANSWER_HEADERS: Final[Mapping[type[BaseModel] | None, dict[str, Any]]] = {
    job_schemas.EnqueueAnswer: _DURABILITY | _FINDINGS,
    job_schemas.BulkAnswer: _DURABILITY | _FINDINGS,
    job_schemas.ResultView: _JOB_ID,
    job_schemas.StateAnswer: _JOB_ID,
    constraint_schemas.ConstraintView: _ETAG | {"JQ-Unserved-Names": _FINDINGS["JQ-Unserved-Names"]},
    constraint_schemas.ConstraintDetail: _ETAG,
}
_PROBLEM_TEXTS: Final = {
    400: "The request cannot be parsed.",
    401: "The request has neither a valid bearer token nor a session.",
    403: (
        "The request is not allowed. `code` gives the reason, such as a missing scope, a token for other "
        "names or another worker, a caller on another machine, a page of another site, or a missing "
        "X-CSRF-Token."
    ),
    404: "The object or the namespace does not exist, or the caller may not see it.",
    406: "The master cannot answer with any of the accepted types.",
    408: "The request did not arrive in time.",
    409: "The current state does not allow the request. `code` names this state.",
    410: "The callback is too late: the attempt that waited for it is over.",
    412: "The precondition does not hold.",
    413: "A body, an argument or a structure exceeds its limit.",
    414: "The path is too long.",
    415: "The body is neither JSON nor MessagePack, or it is compressed.",
    421: "The request's `JQ-Store` names another store than this master's. Nothing was done.",
    422: "The request is not valid. `errors` names each invalid field and its fault.",
    429: "A constraint allows no more waiting jobs, or the caller exceeded a rate limit. Try again after Retry-After.",
    431: "The request line and headers are too large.",
    502: "An object that another system stores for the master is damaged.",
    500: "A stored record is damaged. `detail` names the remedy.",
    503: "The master reached a limit, or the store is not available. With code `outcome_unknown`, the request may have taken effect.",
}
# Refusals by a worker. Only the status is required. A body is for people.
_WORKER_REFUSALS: Final = {
    400: ("Not MessagePack", None),
    408: ("The body did not arrive in time", None),
    413: ("The body is too large", None),
    415: ("The body has another type", None),
    422: ("The body does not have the expected form", None),
}
_RESULT_TEXTS: Final = {
    200: "The result. Null if the job has no result, or its result was not kept or is no longer kept.",
    202: "The job did not end within `wait`.",
}


@cache
def master_document() -> dict[str, Any]:
    """Return the content of `openapi/jqmaster.yaml`."""
    spec = APISpec(
        "jqmaster", __version__, "3.1.0", info={"description": MASTER_TEXT, **_INFO}, servers=_SERVERS
    )
    models = [m for op in OPERATIONS for m in (op.request, *op.responses.values()) if m is not None]
    _add_schemas(spec, [*models, schemas.Problem])
    for name, schema in constraint_schemas.MATCHER_SCHEMAS.items():
        spec.components.schema(name, schema)
    spec.components.schema("HistorySpan", stats_schemas.SPAN_SCHEMA)
    spec.components.schema(
        "ProblemCode",
        {
            "type": "string",
            "enum": sorted(entry.code for entry in CODES),
            "description": (
                "The codes of problems. docs/errors.md describes all codes. `x-had-no-effect` "
                "lists the codes of status 503 that prove that the request had no effect. After "
                "any other 503, the request may have had an effect."
            ),
            protocol_generator.HAD_NO_EFFECT: sorted(
                entry.code
                for entry in CODES
                if entry.had_no_effect and HTTPStatus.SERVICE_UNAVAILABLE in entry.statuses
            ),
        },
    )
    spec.components.parameter("Store", "header", _STORE)
    spec.components.security_scheme(
        "bearer",
        {
            "type": "http",
            "scheme": "bearer",
            "description": (
                "Scopes: push, work, read, operate (includes read), admin (all). As long as "
                "there are no tokens and no users, the master serves only callers on its own "
                "machine."
            ),
        },
    )
    for status in sorted({status for op in OPERATIONS for status in _problems_of(op)}):
        spec.components.response(f"Problem{status}", _problem_response(status))
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _master_operation(operation)
    for path, operations in paths.items():
        spec.path(path, operations=operations)
    document: dict[str, Any] = _plain(spec.to_dict())
    return document


def _worker_operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path, method and operation of each call from a master to a worker."""
    order = {200: ("Done", None)}
    stale = {409: ("The command came from an older leader", None)}
    answers: Mapping[int, tuple[str, type[BaseModel] | None]]
    answers = {200: ("The accepted and rejected jobs", w.PushAnswer)}
    offer = _worker_operation("offer_jobs", "Offer jobs", w.PushRequest, answers)
    yield "/jobs", "post", offer
    answers = {**order, **stale, 404: ("No job with this token runs here", None)}
    job_id = _path_parameter("job_id", "")
    cancel = _worker_operation("cancel_job", "Stop a job", w.CancelOrder, answers, parameters=[job_id])
    yield "/jobs/{job_id}/cancel", "post", cancel
    answers = {200: ("The state", w.WorkerStatus)}
    yield "/status", "get", _worker_operation("status", "Get the state of the worker", None, answers)
    for name, (body, summary) in w.COMMANDS.items():
        yield f"/{name}", "post", _worker_operation(name, summary, body, {**order, **stale})
    answers = {204: ("The worker is alive", None)}
    ping = _worker_operation("ping", "Check whether the worker is alive", None, answers, signed=False)
    yield "/ping", "get", ping
    answers = {200: ("The proof", w.ChallengeAnswer)}
    prove = _worker_operation("challenge", "Prove the address", w.ChallengeRequest, answers, signed=False)
    yield "/challenge", "post", prove


@cache
def worker_document() -> dict[str, Any]:
    """Return the content of `openapi/worker.yaml`."""
    spec = APISpec(
        "jqmaster worker",
        __version__,
        "3.1.0",
        info={"description": WORKER_TEXT, **_INFO},
        servers=_WORKER_SERVERS,
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
            *(body for body, _ in w.COMMANDS.values()),
        ],
    )
    spec.components.security_scheme(
        "signature",
        {
            "type": "apiKey",
            "in": "header",
            "name": "X-JQ-Signature",
            "description": "`v1=` and 64 hex digits.",
        },
    )
    for path, method, operation in _worker_operations():
        spec.path(path, operations={method: operation})
    document: dict[str, Any] = _plain(spec.to_dict())
    return document


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return the text of the committed file."""
    # Use the dumper in C if it is available. It writes the same text five times as fast.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120))


def generated_files() -> dict[str, str]:
    """Return all files that are generated from the OpenAPI documents: the path in the repository, and the text."""
    documents = [master_document(), worker_document()]
    return {
        "openapi/jqmaster.yaml": as_yaml(documents[0]),
        "openapi/worker.yaml": as_yaml(documents[1]),
        "worker_sdk/protocol.py": protocol_generator.python_source(documents),
        "clients/typescript/src/wire/protocol.ts": typescript_generator.typescript_source(documents),
    }


# Names of groups and operations that do not change when a handler moves, because generated clients name their
# methods after them.
_GROUPS: Final = {"jobs.action_handlers": "job_actions", "jobs.why_handlers": "why"}
_OPERATION_IDS: Final = {
    "constraints.handlers.preview_job": "job_preview_preview",
    "operations.health.metrics": "metrics_metrics",
}


def operation_id(op: Operation) -> str:
    """Return `GROUP_FUNCTION`. The group is the handler's file, or its package if the file is `handlers`."""
    room, file = op.handler.__module__.split(".")[-2:]
    if known := _OPERATION_IDS.get(f"{room}.{file}.{op.handler.__name__}"):
        return known
    group = _GROUPS.get(f"{room}.{file}", room if file == "handlers" else file)
    return f"{group}_{op.handler.__name__}"


def _problems_of(op: Operation) -> Iterable[int]:
    found = {*_ANY_PROBLEMS, *op.problems}
    if op.access:
        found.update(_ACCESS_PROBLEMS)
    if op.request:
        found.update(_BODY_PROBLEMS)
    return sorted(found - set(op.responses))


def _problem_response(status: int) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": _PROBLEM_TEXTS[status],
        "content": {media: {"schema": _ref(schemas.Problem)} for media in PROBLEM_MEDIA_TYPES},
    }
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        response["headers"] = _RETRY_AFTER
    elif status == HTTPStatus.UNAUTHORIZED:
        response["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return response


def _master_operation(op: Operation) -> dict[str, Any]:
    parameters: list[dict[str, Any] | str] = [
        _path_parameter(name, op.path) for name in re.findall(r"{(\w+)}", op.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, **described} for name, described in op.query.items()
    ]
    is_enqueue = op.method == "POST" and op.path == "/api/jobs"
    parameters += [*_header_parameters(op), "Store"]
    responses: dict[str, Any] = {}
    for status, model in op.responses.items():
        is_result = op.path.endswith("/result")
        response: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        schema = {} if model is None else _ref(model)
        if is_result:
            response["description"] = _RESULT_TEXTS[status]
            if status == HTTPStatus.OK:
                schema = {"anyOf": [schema, {"type": "null"}]}
        if model in _ANSWER_HEADERS:
            response["headers"] = _ANSWER_HEADERS[model]
        if is_enqueue and status == HTTPStatus.OK:
            response["description"] = (
                "A repeat with the same ID or key and the same content. No second job was created."
            )
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            response["headers"] = _RETRY_AFTER
        if status == HTTPStatus.FOUND:
            response["headers"] = {"Location": {"schema": {"type": "string"}}}
        elif status != HTTPStatus.NO_CONTENT:
            response["content"] = _answer_content(op, schema, model)
        responses[str(status)] = response
    for status in _problems_of(op):
        responses[str(status)] = {"$ref": f"#/components/responses/Problem{status}"}
    described: dict[str, Any] = {
        "operationId": operation_id(op),
        "summary": op.summary,
        "tags": [op.tag],
        "parameters": parameters,
    }
    if texts := [text for text in (_scopes(op), op.text) if text]:
        described["description"] = " ".join(texts)
    if body := _request_body(op):
        described["requestBody"] = body
    return described | {
        "responses": responses,
        "security": [*({"bearer": [scope.value]} for scope in _accepted(op)), {}],
    }


def _accepted(op: Operation) -> list[Scope]:
    """Return the scopes that allow the operation. The caller needs one of them."""
    return [scope for scope in (op.access, op.also) if scope is not None]


def _scopes(op: Operation) -> str:
    return f"Scope: {' or '.join(_accepted(op))}." if op.access else ""


def _answer_content(op: Operation, schema: dict[str, Any], model: type[BaseModel] | None) -> dict[str, Any]:
    if op.is_stream:
        return {EVENT_STREAM: {"schema": {"type": "string"}}}
    if op.is_text:
        return {TEXT: {"schema": {"type": "string"}}}
    if op.has_page:
        return {**_content(schema, MEDIA_TYPES, model), PAGE: {"schema": {"type": "string"}}}
    return _content(schema, MEDIA_TYPES, model)


def _request_body(op: Operation) -> dict[str, Any] | None:
    if op.request:
        content = _content(_ref(op.request), MEDIA_TYPES, op.request)
        return {"required": not op.has_optional_body, "content": content}
    return _ANY_BODY if op.takes_any_body else None


def _header_parameters(op: Operation) -> list[dict[str, Any]]:
    match op.method, op.path:
        case "POST", "/api/jobs":
            return [_IDEMPOTENCY_KEY, _ASKED_DURABILITY]
        case "POST", "/callbacks/{request_id}":
            return [_CALLBACK_KEY]
        case "POST", "/api/jobs/bulk":
            return [_ASKED_DURABILITY]
        case "POST", "/api/workers/{worker_id}/results":
            return [_JOBS_AFTER]
    if HTTPStatus.PRECONDITION_FAILED not in op.problems:
        return []
    return [_IF_MATCH, _IF_NONE_MATCH] if op.method == "PUT" else [_IF_MATCH]


def _worker_operation(
    operation_id: str,
    summary: str,
    request: type[BaseModel] | None,
    responses: Mapping[int, tuple[str, type[BaseModel] | None]],
    *,
    parameters: Sequence[dict[str, Any]] = (),
    signed: bool = True,
) -> dict[str, Any]:
    headers = [
        ("X-JQ-Worker", "The worker's ID.", {"type": "string"}, WORKER_ID),
        (
            "X-JQ-Timestamp",
            "Unix time in ms.",
            {"type": "string", "pattern": "^[0-9]{1,16}$"},
            "1795238645000",
        ),
        ("X-JQ-Nonce", "Not seen before.", {"type": "string"}, "q2Zr8bXkT1mW5yUe"),
    ]
    described: dict[str, Any] = {
        "operationId": operation_id,
        "summary": summary,
        "parameters": [
            *parameters,
            *(
                {"name": name, "in": "header", "required": True, "schema": schema, "description": text,
                    "example": example}
                for name, text, schema, example in headers
                if signed
            ),
        ],
    }  # fmt: skip
    if request:
        described["requestBody"] = {"required": True, "content": _content(_ref(request), (MSGPACK,), request)}
    if signed:
        responses = {**responses, 401: ("The signature is wrong, old or repeated; nothing ran", None)}
    if request:
        responses = {**responses, **_WORKER_REFUSALS}
    described["responses"] = {
        str(status): {"description": text}
        | ({"content": _content(_ref(model), (MSGPACK,), model)} if model else {})
        for status, (text, model) in sorted(responses.items())
    }
    return described | {"security": [{"signature": []}] if signed else [{}]}


def _content(
    schema: dict[str, Any], media_types: Sequence[str], model: type[BaseModel] | None
) -> dict[str, Any]:
    media: dict[str, Any] = {"schema": schema}
    if model and model.__name__ in EXAMPLES:
        media["example"] = _whole_example(model, EXAMPLES[model.__name__])
    return dict.fromkeys(media_types, media)


def _whole_example(annotation: Any, example: Any) -> Any:
    """Return the example of an answer, with null for each missing nullable field."""
    models = [annotation, *get_args(annotation)]
    if isinstance(example, list):
        return (
            [_whole_example(get_args(annotation)[0], one) for one in example]
            if get_args(annotation)
            else example
        )
    model = next((one for one in models if isinstance(one, type) and issubclass(one, BaseModel)), None)
    if model is None or not isinstance(example, dict):
        return example
    fields = model.model_fields
    whole = {
        name: _whole_example(fields[name].annotation, value) if name in fields else value
        for name, value in example.items()
    }
    missing = (name for name, field in fields.items() if field.is_required() and name not in whole)
    return whole | {name: None for name in missing if type(None) in get_args(fields[name].annotation)}


def _path_parameter(name: str, path: str) -> dict[str, Any]:
    text, example = _NAMES[path.partition("/{name}")[0]] if name == "name" else _PARAMETERS[name]
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string"},
        "description": text,
        "example": example,
    }


def _ref(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": _REF.format(model=model.__name__)}


class _Untitled(GenerateJsonSchema):
    """Remove titles, because they only repeat the names of fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate_definitions(self, inputs: Any) -> Any:
        references, definitions = super().generate_definitions(inputs)
        for definition in definitions.values():
            definition.pop("title", None)
        return references, definitions


def _add_schemas(spec: APISpec, models: Sequence[type[BaseModel]]) -> None:
    # Use separate schemas for requests and answers. A field with a default is optional in a request, but always
    # present in an answer.
    modes: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (model, "serialization" if issubclass(model, schemas.Answer) else "validation")
        for model in dict.fromkeys(models)
    ]
    _, definitions = models_json_schema(modes, ref_template=_REF, schema_generator=_Untitled)
    for name, schema in sorted(definitions["$defs"].items()):
        later = [field for field, of in schema.get("properties", {}).items() if of.pop(schemas.LATER, False)]
        if later:
            schema["required"] = [field for field in schema["required"] if field not in later]
        spec.components.schema(name, schema)


def _plain(document: Any) -> Any:
    """Write YAML without aliases and in the given order, so that diffs show only real changes."""
    if isinstance(document, Mapping):
        if name := document.get("x-schema"):
            document = {**document, "$ref": _REF.format(model=name)}
        return {str(key): _plain(value) for key, value in document.items() if key != "x-schema"}
    if isinstance(document, list | tuple):
        return [_plain(value) for value in document]
    return document


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit("usage: python -m jqmaster.spec.openapi --write")
    for path, text in generated_files().items():
        (Path(__file__).parents[2] / path).write_text(text)
