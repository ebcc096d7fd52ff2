"""Handle an ASGI request: authenticate, decode, call the handler, and encode the answer.

Every push and every result takes this path. So the code creates no framework object per request."""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from jqmaster.api.encoding.answers import encode
from jqmaster.api.encoding.bodies import read_body
from jqmaster.api.encoding.envelopes import read_map
from jqmaster.api.encoding.negotiation import (
    ANY,
    MAX_FIELD_BYTES,
    Encoding,
    Fields,
    answer_encoding,
    demand_events,
    join_fields,
    negotiate,
)
from jqmaster.api.encoding.validator import ScanLimits
from jqmaster.api.http.auth import AccessPolicy
from jqmaster.api.http.connection_room import PROVE
from jqmaster.api.http.problems import invalid_from, problem_response
from jqmaster.api.http.security_headers import DATA_HEADERS
from jqmaster.api.services import Services
from jqmaster.domain.content.content import ContentAccess, content_access
from jqmaster.domain.identity.access import Principal
from jqmaster.domain.identity.access import Scope as AccessScope
from jqmaster.domain.operations.latency import RouteTraffic
from jqmaster.errors import (
    UNKNOWN_NAMESPACE,
    FieldError,
    ForbiddenError,
    InvalidError,
    JqmasterError,
    NotFoundError,
    OtherStoreError,
    OverloadedError,
    UnauthorizedError,
    UnparsableError,
)
from jqmaster.live_value import LiveValue
from jqmaster.log_context import REQUEST, RequestContext
from jqmaster.service.identity.sessions import Session
from jqmaster.service.jobs.intake import PushInProgress

ModelT = TypeVar("ModelT", bound=BaseModel)

MAX_QUERY_BYTES: Final = 4096
# A namespace with fewer calls in progress than this number may always make a further call.
FEW_CALLS: Final = 32
CALLS_RETRY_AFTER_S: Final = 1
_WITHOUT_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
STORE: Final = b"jq-store"
# A header field that each delivery to a target has.
FENCE: Final = b"jq-fence"
# The content type of each encoding, as bytes. Looking it up here is faster than asking the enum for its value.
_CONTENT_TYPES: Final = {encoding: encoding.value.encode() for encoding in Encoding}


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Limits of one request, from the settings at the time of the request.
    * `scan`: limits of the body.
    * `content`: limits of each argument or result in the body.
    """

    max_body_bytes: int
    scan: ScanLimits
    content: ScanLimits


@dataclass(slots=True)
class Call:
    """A request as its handler sees it."""

    fields: Fields
    path: Mapping[str, str]
    query_string: bytes
    principal: Principal | None
    limits: CallLimits
    services: Services
    client_host: str | None
    session: Session | None
    policy: AccessPolicy
    # Returns whether the caller would still be admitted. Long-running answers call this function repeatedly. It
    # raises an error if it cannot determine the answer.
    is_admitted: Callable[[], Awaitable[bool]]
    _receive: Receive
    push_turn: PushInProgress | None = None  # only for a push

    @property
    def who(self) -> str:
        """The caller, as the audit log names it."""
        return self.principal.name if self.principal else ""

    @property
    def known(self) -> Principal:
        """The caller of a route that requires a scope."""
        assert self.principal is not None
        return self.principal

    @property
    def bearer(self) -> bytes:
        """The bearer token of the request. Empty if the request has none."""
        return self.fields.get(b"authorization", b"").partition(b" ")[2].strip()

    @property
    def address(self) -> str:
        """Return the address of the caller; see `AccessPolicy.address`."""
        return self.policy.address(self.fields, self.client_host)

    def may(self, scope: AccessScope) -> bool:
        """Return whether the caller has `scope`, which may be more than the route requires."""
        return self.principal is not None and scope in self.principal.scopes

    @property
    def content(self) -> ContentAccess:
        """Return which job content the caller may see."""
        settings = self.services.settings
        return content_access(
            self.principal,
            viewers_see_content=settings.viewers_see_content,
            redact_paths=settings.redact_paths,
        )

    async def body(self, max_bytes: int | None = None) -> bytes:
        """Return the body as MessagePack, within the limits. `max_bytes` sets a different maximum size. Raises
        the errors of `read_body`, and OverloadedError."""
        push_turn, most = self.push_turn, max_bytes or self.limits.max_body_bytes
        if push_turn is None:
            return await read_body(self.fields, self._receive, max_bytes=most)
        body = await read_body(self.fields, self._receive, max_bytes=most, hold=push_turn.hold)
        await push_turn.read()
        return body

    async def read(
        self,
        model: type[ModelT],
        raw_fields: frozenset[str] = frozenset(),
        *,
        max_bytes: int | None = None,
    ) -> ModelT:
        """Return the body as `model`. Raises the errors of `read_map`, and an InvalidError that names each
        invalid field."""
        return check(model, read_map(await self.body(max_bytes), raw_fields, limits=self.limits.scan))

    async def gone(self) -> None:
        """Wait until the client has disconnected. Call this method only after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def query(self, *allowed: str) -> dict[str, str]:
        """Return the query parameters. Raises InvalidError for a parameter that is unknown or given twice."""
        pairs = self._query_pairs(allowed)
        query = dict(pairs)
        if len(query) != len(pairs):
            raise InvalidError("query: given twice")
        return query

    def query_lists(self, *allowed: str) -> dict[str, list[str]]:
        """Return the values of query parameters that may be repeated, by name and in order. The list of an absent
        parameter is empty. Raises InvalidError for an unknown parameter."""
        lists: dict[str, list[str]] = {name: [] for name in allowed}
        for name, value in self._query_pairs(allowed):
            lists[name].append(value)
        return lists

    def _query_pairs(self, allowed: Sequence[str]) -> list[tuple[str, str]]:
        if len(self.query_string) > MAX_QUERY_BYTES:
            raise InvalidError("the query is too long")
        try:
            pairs = parse_qsl(
                self.query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=32
            )
        except ValueError:
            raise UnparsableError("the query cannot be parsed") from None
        wrong = [name for name in dict(pairs) if name not in allowed]
        if wrong:
            rule = "unknown parameter"
            raise InvalidError(
                f"query: {rule}", errors=[FieldError(("query", name[:64]), rule) for name in wrong]
            )
        return pairs


def delivery_loop() -> InvalidError:
    """Return the error for a delivery that this service sends to itself. Such a delivery would start jobs without
    end."""
    return InvalidError(
        "this request delivers a job to a target with the URL of this service", code="delivery_loop"
    )


Handler = Callable[[Call], Awaitable["Reply | StreamedAnswer"]]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a handler. The endpoint encodes `value` as the client requests."""

    status: int
    value: Any = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    # If set, `value` is bytes that are sent unchanged, with this content type.
    media_type: bytes | None = None
    # If set, these headers replace the usual security headers. They are set for pages that people see, and for
    # answers that clients may cache.
    security_headers: Sequence[tuple[bytes, bytes]] | None = None


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer without a known end. `app` sends it."""

    app: ASGIApp


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path: its handler, the scope that it needs, and its part of the OpenAPI document.

    Without `access`, anybody may call it.

    * `text`: the description in the OpenAPI document, in addition to the summary.
    * `responses`: the model of each status that is not a problem. None: no body.
    * `is_stream`: the answer is `text/event-stream`.
    * `push`: the operation accepts new jobs. It is refused while too many such calls run.
    * `has_effect`: the operation changes something or takes up space although its method is GET.
    """

    method: str
    path: str
    handler: Handler
    access: AccessScope | None
    summary: str
    tag: str
    responses: Mapping[int, type[BaseModel] | None]
    request: type[BaseModel] | None = None
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[int, ...] = ()
    text: str = ""
    is_stream: bool = False
    push: Literal["single", "bulk"] | None = None
    # Whether the answer is plain text, regardless of the types that the client accepts.
    is_text: bool = False
    # Whether a request may come without its body.
    has_optional_body: bool = False
    has_effect: bool = False
    # Whether the handler takes a body of any content type, unchanged. Needed if outside systems choose the type.
    takes_any_body: bool = False
    # Whether browsers get a page as the answer.
    has_page: bool = False
    # Whether a call of this operation can undo a limit that is too low.
    undoes_limits: bool = False
    # Whether the operation exists only for the installation, not below the path of a namespace.
    is_of_installation: bool = False
    # Whether the operation changes something for all namespaces if its path names no namespace.
    changes_installation: bool = False
    # A further scope that allows the operation.
    also: AccessScope | None = None

    @property
    def is_vital(self) -> bool:
        """Return whether this operation is exempt from the limits on pushers.

        Without the exemption, a limit that is too low could end the leases of all workers. Nobody could raise
        that limit again."""
        return self.access is AccessScope.WORK or self.undoes_limits


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """The limits of requests according to the current settings. `vital`: see `Operation.is_vital`."""

    usual: LiveValue[CallLimits]
    vital: LiveValue[CallLimits]


class _Served(NamedTuple):
    """An operation with values that are the same for all its calls and are computed once."""

    operation: Operation
    limits: LiveValue[CallLimits]
    traffic: RouteTraffic
    # Whether to refuse a caller that accepts none of the master's encodings.
    must_accept: bool


class Endpoint:
    """ASGI application of one path."""

    def __init__(
        self,
        operations: list[Operation],
        policy: AccessPolicy,
        limits: LimitsInForce,
        services: Services,
    ) -> None:
        route, traffic = operations[0].path, services.traffic
        self._served = {
            op.method: _Served(
                op,
                limits.vital if op.is_vital else limits.usual,
                traffic.of(op.method, route),
                must_accept=not (op.is_stream or op.is_text or op.takes_any_body or op.has_page),
            )
            for op in operations
        }
        # Count all methods without an operation as one, because clients can make up any number of them.
        self._other_traffic = traffic.of("other", route)
        self.methods: Final = frozenset(self._served)
        self._allow = ", ".join(sorted(self.methods))
        self._policy = policy
        self._services = services
        self._store_id = services.store_id.encode()
        self._headers = [*DATA_HEADERS, (STORE, self._store_id)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s = perf_counter()
        headers = scope["headers"]
        fields: Fields = dict(headers)
        if len(fields) != len(headers):
            fields = join_fields(headers)
        request = RequestContext(fields.get(b"x-request-id"), scope["path_params"])
        # This sets the context of this request only, because each request runs in its own task.
        REQUEST.set(request)
        served = self._served.get(scope["method"])
        traffic = self._other_traffic if served is None else served.traffic
        calls = self._services.calls
        # Count inline, because a function call here would slow down every request.
        calls.taken += 1
        calls.shared.taken += 1
        try:
            if served is None or (
                calls.taken > FEW_CALLS and not (served.operation.is_vital or calls.has_room(0))
            ):
                raise self._refusal(served)
            operation = served.operation
            host = client[0] if (client := scope.get("client")) else None
            person = self._person(scope, fields, host, operation) if self._policy.proxy_login else None
            session = (
                await self._session(fields, operation) if b"cookie" in fields and person is None else None
            )
            principal = self._principal(scope, fields, host, operation, session=session, person=person)
            # Refuse a request that repeats the headers of a delivery: an outside system may send back all header
            # fields that it received. Do not refuse reads and requests that need no access, such as callbacks:
            # they start no new job.
            if FENCE in fields and operation.method != "GET" and operation.access is not None:
                raise delivery_loop()
            if fields.get(STORE, self._store_id) != self._store_id:
                raise OtherStoreError("the header JQ-Store names a different store than that of this master")
            if operation.is_stream:
                demand_events(fields)
            encoding = answer_encoding(
                fields.get(b"accept", ANY)[:MAX_FIELD_BYTES],
                fields.get(b"content-type", b"")[:MAX_FIELD_BYTES],
                served.must_accept,
            )
            call = Call(
                fields, scope["path_params"], scope["query_string"], principal, served.limits.current, self._services,
                host, session, self._policy, functools.partial(self._is_admitted, operation, scope, fields), receive,
            )  # fmt: skip
            if operation.push is None:
                reply = await operation.handler(call)
            else:
                with self._services.intake.enter(is_bulk=operation.push == "bulk") as call.push_turn:
                    reply = await operation.handler(call)
        except Exception as exc:
            problem = self._problem(exc, fields, request)
            await problem(scope, receive, send)
            traffic.add(problem.status_code, perf_counter() - began_s)
        else:
            if isinstance(reply, StreamedAnswer):
                # Count a stream when it starts, without its duration, because the client decides how long it lasts.
                traffic.add(HTTPStatus.OK, perf_counter() - began_s)
                await reply.app(scope, receive, send)
                return
            if request.given is not None and (request_id := request.given_id):
                reply = replace(reply, headers=(*reply.headers, (b"x-request-id", request_id.encode())))
            await self._send(reply, encoding, send)
            traffic.add(reply.status, perf_counter() - began_s)
        finally:
            calls.taken -= 1
            calls.shared.taken -= 1

    def _refusal(self, served: _Served | None) -> Exception:
        """Return the error of a call that is refused at once. The operation does not exist, or too many calls are
        in progress."""
        if served is None:
            return HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": self._allow})
        return OverloadedError(
            "too many calls of this namespace are in progress; nothing was done",
            retry_after_s=CALLS_RETRY_AFTER_S,
        )

    def _problem(self, exc: Exception, fields: Fields, request: RequestContext) -> Response:
        problem = problem_response(exc, negotiate(fields, strict=False))
        # Leave out these headers if the namespace is unknown to the caller: the answer must not show whether it exists.
        if getattr(exc, "code", "") != UNKNOWN_NAMESPACE:
            problem.raw_headers += [(b"x-request-id", request.id.encode()), (STORE, self._store_id)]
        return problem

    async def _is_admitted(self, operation: Operation, scope: Scope, fields: Fields) -> bool:
        if operation.access is None:
            return True
        client = scope.get("client")
        host = client[0] if client else None
        try:
            person = self._person(scope, fields, host, operation) if self._policy.proxy_login else None
            session = await self._session(fields, operation) if person is None else None
            self._policy.authorize(
                scope["method"],
                fields,
                host,
                operation.access,
                session,
                person=person,
                also=operation.also,
                is_of_installation=operation.is_of_installation or operation.changes_installation,
            )
        except (UnauthorizedError, ForbiddenError, NotFoundError):
            return False  # not found: the token is no longer valid for this namespace
        return True

    def _principal(
        self,
        scope: Scope,
        fields: Fields,
        host: str | None,
        operation: Operation,
        *,
        session: Session | None,
        person: Principal | None,
    ) -> Principal | None:
        """Return the caller if it may use the operation. Return None for an unknown caller of a public operation."""
        if operation.access is None:
            if operation.method != "GET":
                self._policy.check_site(operation.method, fields)
            return self._policy.identify(fields, host, session, person)
        principal = self._policy.authorize(
            scope["method"],
            fields,
            host,
            operation.access,
            session,
            has_effect=operation.has_effect,
            person=person,
            also=operation.also,
            is_of_installation=operation.is_of_installation or operation.changes_installation,
        )
        if (prove := scope.get(PROVE)) is not None:
            prove(is_worker=operation.is_vital)
        return principal

    def _person(
        self, scope: Scope, fields: Fields, host: str | None, operation: Operation
    ) -> Principal | None:
        """Return the person whom a proxy names. A person without a role may still send a token, or log in with a
        token."""
        assert self._policy.proxy_login is not None
        try:
            return self._policy.proxy_login.person(scope["headers"], fields, host)
        except ForbiddenError:
            # Look only for our own session cookie, because the proxy sets other cookies.
            has_own = b"authorization" in fields or self._policy.secrets(fields)
            if operation.access is not None and not has_own:
                raise
            return None

    async def _session(self, fields: Fields, operation: Operation) -> Session | None:
        if b"cookie" not in fields or b"authorization" in fields:
            return None
        try:
            return await self._policy.session(fields)
        except JqmasterError:
            if operation.access is not None or operation.method != "GET":
                raise
            return None  # public routes answer even if the store is unreachable

    async def _send(self, reply: Reply, encoding: Encoding, send: Send) -> None:
        if reply.status in _WITHOUT_BODY:
            body = b""
            headers = [
                *(self._headers if reply.security_headers is None else reply.security_headers),
                *reply.headers,
            ]
        else:
            body = encode(reply.value, encoding) if reply.media_type is None else reply.value
            headers = [
                (b"content-type", reply.media_type or _CONTENT_TYPES[encoding]),
                (b"content-length", b"%d" % len(body)),
                *(self._headers if reply.security_headers is None else reply.security_headers),
                *reply.headers,
            ]
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request that no route serves."""
    if scope["type"] != "http":
        return
    encoding = negotiate(join_fields(scope["headers"]), strict=False)
    await problem_response(HTTPException(HTTPStatus.NOT_FOUND), encoding)(scope, receive, send)


def check(model: type[ModelT], fields: Mapping[str, Any], loc: tuple[str | int, ...] = ()) -> ModelT:
    """Return `fields` as `model`. Raises InvalidError that names each invalid field under `loc` and the rule that it
    breaks."""
    try:
        return model.model_validate(fields)
    except ValidationError as exc:
        raise invalid_from(exc, loc, model) from None
