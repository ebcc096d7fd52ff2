"""Errors as RFC 9457 problems. Only this module knows HTTP statuses."""

import functools
import json
import logging
import math
import uuid
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from jqmaster.api.encoding.answers import encode
from jqmaster.api.encoding.negotiation import Encoding, NotAcceptableError
from jqmaster.api.http.rules import rule_of
from jqmaster.api.http.security_headers import DATA_HEADERS
from jqmaster.errors import (
    ArchiveDamagedError,
    ArchiveUnavailableError,
    ChallengeOverError,
    ConflictError,
    DamagedError,
    FieldError,
    ForbiddenError,
    InvalidError,
    JqmasterError,
    NamespaceUnavailableError,
    NotFoundError,
    NotUniqueError,
    OfferUnderWayError,
    OtherStoreError,
    OutcomeUnknownError,
    OverloadedError,
    PreconditionFailedError,
    ProviderUnavailableError,
    RateLimitedError,
    StoreUnavailableError,
    StoreUnfitError,
    TooLargeError,
    UnauthorizedError,
    UnparsableError,
    UnsupportedMediaTypeError,
    invalid,
)

logger = logging.getLogger(__name__)

# A class that is missing here gets the status of its nearest base class.
STATUS: Final[Mapping[type[JqmasterError], tuple[int, str]]] = {
    UnparsableError: (400, "Cannot be parsed"),
    UnauthorizedError: (401, "Not authenticated"),
    ForbiddenError: (403, "Not allowed"),
    NotFoundError: (404, "Not found"),
    NotAcceptableError: (406, "No acceptable encoding"),
    ConflictError: (409, "Conflicts with the current state"),
    ChallengeOverError: (410, "Over"),
    PreconditionFailedError: (412, "Precondition failed"),
    TooLargeError: (413, "Too large"),
    UnsupportedMediaTypeError: (415, "Unsupported type of body"),
    OtherStoreError: (421, "Another store"),
    InvalidError: (422, "Not valid"),
    RateLimitedError: (429, "Too many requests"),
    DamagedError: (500, "Stored data are damaged"),
    JqmasterError: (500, "Internal error"),
    ArchiveDamagedError: (502, "An archived log is damaged"),
    OverloadedError: (503, "Overloaded"),
    NamespaceUnavailableError: (503, "The namespace is not served"),
    StoreUnavailableError: (503, "The store is not available"),
    StoreUnfitError: (503, "The store is not fit"),
    ProviderUnavailableError: (503, "The login provider is not available"),
    ArchiveUnavailableError: (503, "The archive of logs is not available"),
    OutcomeUnknownError: (503, "The outcome is unknown"),
}

MAX_PROBLEM_BYTES: Final = 4096
NO_PATH: Final = "no such path; GET /openapi.json lists all paths"
_MAX_ECHO: Final = 64
# Prefix of the tags of unions. pydantic adds these tags to the location of an error. Clients do not see them.
UNNAMED: Final = "~"
_MAX_DETAIL: Final = 300
_MAX_RULE: Final = 200


def problem_response(exc: Exception, encoding: Encoding) -> Response:
    """Return the answer to a request that ended with `exc`. It has at most 4 KiB. If the error is unexpected, the
    answer contains only an incident number."""
    if isinstance(exc, HTTPException):
        return _from_http_exception(exc, encoding)
    if isinstance(exc, ValidationError):
        exc = invalid_from(exc)
    if not isinstance(exc, JqmasterError):
        incident = uuid.uuid4().hex[:12]
        logger.error("incident %s", incident, exc_info=exc)
        exc = JqmasterError(f"incident {incident}")
    status, title = status_of(exc)
    logger.debug("the request is answered %d %s: %s", status, exc.code, exc.detail)
    headers = {}
    if status in (429, 503) or isinstance(exc, OfferUnderWayError):
        headers["retry-after"] = str(max(1, math.ceil(exc.retry_after_s or 1)))
    elif status == 401:
        headers["www-authenticate"] = "Bearer"
    more: dict[str, Any] = {"job_id": exc.job_id} if isinstance(exc, NotUniqueError) else {}
    if isinstance(exc, ArchiveUnavailableError) and exc.stored_after is not None:
        more["stored_after"] = exc.stored_after
    return _response(
        status, title, exc.detail, exc.code, errors=exc.errors, encoding=encoding, headers=headers, more=more
    )


def status_of(exc: JqmasterError) -> tuple[int, str]:
    """Return the HTTP status of an error, and the title of its problem."""
    return next(STATUS[cls] for cls in type(exc).__mro__ if cls in STATUS)


def invalid_from(
    exc: ValidationError, prefix: tuple[str | int, ...] = (), model: type[BaseModel] | None = None
) -> InvalidError:
    """Convert a pydantic error to a list of invalid fields and the rules that they break.

    The list does not repeat the input, with one exception: the beginning of a text where a number is required.

    * `prefix`: the place of the input in the request.
    * `model`: the model that was read, for suggestions.
    """
    errors = []
    for error in exc.errors(include_url=False):
        named = (part for part in error["loc"] if not str(part).startswith(UNNAMED))
        errors.append(FieldError((*prefix, *named), rule_of(error, model)))
    return invalid(errors)


def edge_problem(status: HTTPStatus, code: str) -> bytes:
    """Return the problem for bytes that are not a request, encoded as MessagePack.

    Such bytes cannot choose an encoding, and some pushers and workers read only MessagePack."""
    return encode(_problem(status, status.phrase, "", code), Encoding.MSGPACK)


def echo(value: object) -> str:
    """Return the input in a form that is safe in a message: escaped and at most 64 characters long."""
    # Show texts and numbers. Show only the type of any other value, because the `repr` of a large value is
    # expensive.
    text = (
        value
        if isinstance(value, str)
        else repr(value)
        if isinstance(value, int | float)
        else type(value).__name__
    )
    return _printable(text, _MAX_ECHO)


def _from_http_exception(exc: HTTPException, encoding: Encoding) -> Response:
    status = HTTPStatus(exc.status_code)
    headers = {name.lower(): value for name, value in (exc.headers or {}).items()}
    code = status.phrase.lower().replace(" ", "_")
    return _response(
        status, status.phrase, _wrong_place(status, headers), code, encoding=encoding, headers=headers
    )


def _wrong_place(status: HTTPStatus, headers: Mapping[str, str]) -> str:
    """Return the remedy for a path or a method that does not exist. The remedy does not repeat the path, because
    a path may contain a secret."""
    if status is HTTPStatus.NOT_FOUND:
        return NO_PATH
    if status is HTTPStatus.METHOD_NOT_ALLOWED and "allow" in headers:
        return f"this path accepts only {headers['allow']}"
    return ""


def _response(
    status: int,
    title: str,
    detail: str,
    code: str,
    *,
    errors: Sequence[FieldError] = (),
    encoding: Encoding,
    headers: dict[str, str],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> Response:
    problem = {**_problem(status, title, detail, code), **more}
    # Measure the problem as ASCII JSON, because this form is longer than MessagePack.
    room = MAX_PROBLEM_BYTES - len(json.dumps(problem)) - 100
    for index, error in enumerate(errors):
        loc = [part if isinstance(part, int) else _printable(part, _MAX_ECHO) for part in error.loc[:8]]
        entry: dict[str, Any] = {"loc": loc, "msg": _printable(error.msg, _MAX_RULE)}
        room -= len(json.dumps(entry)) + 2
        if room < 0:
            problem["errors"].append({"loc": [], "msg": f"and {len(errors) - index} more"})
            break
        problem["errors"].append(entry)
    media_type = "application/problem+json" if encoding is Encoding.JSON else encoding.value
    response = Response(encode(problem, encoding), status, headers, media_type)
    response.raw_headers += DATA_HEADERS
    return response


def _problem(status: int, title: str, detail: str, code: str) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": title,
        "status": int(status),
        "detail": _printable(detail, _MAX_DETAIL),
        "code": code,
        "errors": [],
    }


def _printable(text: str, limit: int) -> str:
    escaped = text[:limit].encode("unicode_escape").decode("ascii")
    return escaped if len(escaped) <= limit and len(text) <= limit else escaped[: limit - 3] + "..."


@functools.cache
def refusal_answer(status: HTTPStatus, code: str, more: tuple[tuple[bytes, bytes], ...] = ()) -> bytes:
    """Return the complete answer to a request that never reaches the application. `more`: further header fields."""
    body = edge_problem(status, code)
    retry_after = "retry-after: 1\r\n" if status == HTTPStatus.SERVICE_UNAVAILABLE else ""
    head = (
        f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/msgpack\r\n"
        f"content-length: {len(body)}\r\n{retry_after}connection: close\r\n"
    )
    fields = b"".join(b"%b: %b\r\n" % field for field in (*DATA_HEADERS, *more))
    return b"".join((head.encode(), fields, b"\r\n", body))
