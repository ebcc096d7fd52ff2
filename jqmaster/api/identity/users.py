"""Users over HTTP."""

from typing import Any

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.identity.schemas import UserPatch, UserRequest
from jqmaster.domain.identity.access import Role
from jqmaster.domain.instant import iso_ms, iso_or_none
from jqmaster.store.identity.credentials import StoredUser


async def list_users(call: Call) -> Reply:
    users = await call.services.identity.users.all()
    return Reply(200, {"users": [_view(user, last_login_ms) for user, last_login_ms in users]})


async def create(call: Call) -> Reply:
    request = await call.read(UserRequest)
    user = await call.services.identity.users.create(
        request.name, request.password, Role(request.role), roles=request.roles, who=call.who
    )
    return Reply(201, _view(user, None))


async def change(call: Call) -> Reply:
    request = await call.read(UserPatch)
    user, last_login_ms = await call.services.identity.users.change(
        call.path["user"],
        role=request.new_role,
        roles=request.new_roles,
        password=request.password,
        is_disabled=request.is_disabled,
        who=call.who,
    )
    return Reply(200, _view(user, last_login_ms))


async def remove(call: Call) -> Reply:
    await call.services.identity.users.remove(call.path["user"], call.who)
    return Reply(204)


async def end_sessions(call: Call) -> Reply:
    await call.services.identity.sessions.end_all_of(call.path["user"], call.who)
    return Reply(204)


def _view(user: StoredUser, last_login_ms: int | None) -> dict[str, Any]:
    return {
        "name": user.name,
        "role": str(user.role),
        "namespaces": {name: str(role) for name, role in user.roles.items()},
        "created_at": iso_ms(user.created_at_ms),
        "last_login_at": iso_or_none(last_login_ms),
        "is_disabled": user.is_disabled,
    }
