"""One path of the Fireworq gateway. Decides which callers may use the path, and how refusals are answered."""

import base64
import binascii
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from jqmaster.api.encoding.negotiation import Fields
from jqmaster.api.http.auth import AccessPolicy
from jqmaster.api.http.connection_room import PROVE
from jqmaster.api.http.endpoint import Endpoint, LimitsInForce, Operation
from jqmaster.api.services import Services
from jqmaster.domain.identity.access import Principal
from jqmaster.domain.identity.access import Scope as AccessScope
from jqmaster.domain.identity.caller import Networks
from jqmaster.service.identity.sessions import Session

_SCOPES: Final = frozenset({AccessScope.PUSH, AccessScope.READ, AccessScope.OPERATE})


class FireworqEndpoint(Endpoint):
    """ASGI application of one path.

    Clients of Fireworq send no bearer tokens. They may send a token as the password in the address. Callers in
    one of `networks` need no token, and have no rights outside the gateway.
    """

    def __init__(
        self,
        operations: list[Operation],
        policy: AccessPolicy,
        limits: LimitsInForce,
        services: Services,
        *,
        networks: Networks,
    ) -> None:
        super().__init__(operations, policy, limits, services)
        self._networks = networks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            # Answer 400 in place of 422, because Fireworq does not distinguish a body that it cannot parse from one
            # that it refuses.
            if message.get("status") == HTTPStatus.UNPROCESSABLE_ENTITY:
                message["status"] = HTTPStatus.BAD_REQUEST
            await send(message)

        await super().__call__({**scope, "headers": _with_bearer(scope["headers"])}, receive, told)

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
        is_known = b"authorization" in fields or session is not None or person is not None
        if is_known or host is None or self._policy.is_open:
            return super()._principal(scope, fields, host, operation, session=session, person=person)
        address = self._policy.address(fields, host)
        if address not in self._networks:
            return super()._principal(scope, fields, host, operation, session=session, person=person)
        # Refuse requests from pages of other sites: otherwise, browsers in these networks would push jobs for
        # such pages. Also refuse pages of a host name that DNS rebinding points to this master.
        self._policy.check_site(scope["method"], fields)
        self._policy.check_host_without_token(fields)
        if (prove := scope.get(PROVE)) is not None:
            prove(is_worker=False)
        return Principal(f"fireworq:{address}", _SCOPES)


def _with_bearer(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers with a bearer token in place of HTTP Basic authentication. For `http://:TOKEN@host/`,
    clients send the token as the password of Basic authentication."""
    return [(name, _bearer(value) if name == b"authorization" else value) for name, value in headers]


def _bearer(authorization: bytes) -> bytes:
    kind, _, credentials = authorization.partition(b" ")
    if kind.lower() != b"basic":
        return authorization
    try:
        user, _, password = base64.b64decode(credentials.strip(), validate=True).partition(b":")
    except binascii.Error:
        return authorization
    return b"Bearer " + (password or user)
