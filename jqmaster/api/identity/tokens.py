"""Tokens over HTTP."""

from typing import Any

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.identity.schemas import ALL, RotateRequest, TokenRequest
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.errors import FieldError, InvalidError
from jqmaster.store.identity.credentials import StoredToken


async def list_tokens(call: Call) -> Reply:
    prefix = call.services.prefix
    listed = await call.services.identity.tokens.all(call.known)
    return Reply(
        200,
        {
            "tokens": [
                _view(one.token, one.last_used_ms, prefix, is_replaced=one.is_replaced) for one in listed
            ]
        },
    )


async def create(call: Call) -> Reply:
    request = await call.read(TokenRequest)
    if call.services.prefix and request.namespaces is not None:
        rule = "must be left out: a token of a namespace is valid only in that namespace"
        raise InvalidError(f"namespaces {rule}", errors=[FieldError(("namespaces",), rule)])
    text, token = await call.services.identity.tokens.create(
        label=request.label,
        scopes=request.scope_set,
        names=request.names,
        ttl_ms=None if request.ttl_s is None else round(request.ttl_s * 1000),
        expires_at_ms=request.expires_at,
        namespaces=request.bound_to,
        caller=call.known,
    )
    return Reply(201, {"token": text, **_view(token, None, call.services.prefix)})


async def rotate(call: Call) -> Reply:
    request = await call.read(RotateRequest)
    text, token = await call.services.identity.tokens.rotate(
        call.path["token_id"], overlap_ms=round(request.overlap_s * 1000), caller=call.known
    )
    return Reply(201, {"token": text, **_view(token, None, call.services.prefix)})


async def revoke(call: Call) -> Reply:
    await call.services.identity.tokens.revoke(call.path["token_id"], call.known)
    return Reply(204)


def _view(
    token: StoredToken, last_used_ms: int | None, prefix: str, *, is_replaced: bool = False
) -> dict[str, Any]:
    own = [prefix.rpartition("/")[2]] if prefix else [ALL]
    return {
        "id": token.id,
        "label": token.label,
        "scopes": sorted(token.scopes),
        "names": list(token.names),
        "namespaces": list(token.namespaces) or own,
        "created_at": iso_ms(token.created_at_ms),
        "created_by": token.created_by,
        "expires_at": iso_or_none(token.expires_at_ms),
        "last_used_at": iso_or_none(last_used_ms),
        "is_replaced": is_replaced,
    }
