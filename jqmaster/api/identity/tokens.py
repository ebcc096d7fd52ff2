"""Tokens over HTTP."""

from typing import Any

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.identity.schemas import RotateRequest, TokenRequest
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.store.identity.credentials import StoredToken


async def list_tokens(call: Call) -> Reply:
    listed = await call.services.identity.tokens.all()
    return Reply(200, {"tokens": [_view(one.token, one.last_used_ms) for one in listed]})


async def create(call: Call) -> Reply:
    request = await call.read(TokenRequest)
    text, token = await call.services.identity.tokens.create(
        label=request.label,
        scopes=request.scope_set,
        names=request.names,
        ttl_ms=None if request.ttl_s is None else round(request.ttl_s * 1000),
        expires_at_ms=request.expires_at,
        who=call.who,
    )
    return Reply(201, {"token": text, **_view(token, None)})


async def rotate(call: Call) -> Reply:
    request = await call.read(RotateRequest)
    text, token = await call.services.identity.tokens.rotate(
        call.path["token_id"], overlap_ms=round(request.overlap_s * 1000), who=call.who
    )
    return Reply(201, {"token": text, **_view(token, None)})


async def revoke(call: Call) -> Reply:
    await call.services.identity.tokens.revoke(call.path["token_id"], call.who)
    return Reply(204)


def _view(token: StoredToken, last_used_ms: int | None) -> dict[str, Any]:
    return {
        "id": token.id,
        "label": token.label,
        "scopes": sorted(token.scopes),
        "names": list(token.names),
        "created_at": iso_ms(token.created_at_ms),
        "created_by": token.created_by,
        "expires_at": iso_or_none(token.expires_at_ms),
        "last_used_at": iso_or_none(last_used_ms),
    }
