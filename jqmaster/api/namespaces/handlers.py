"""Namespaces over HTTP. They are managed at the paths of the installation, not below the path of a namespace."""

from collections.abc import Mapping

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.http.preconditions import check_name, etag_header, precondition
from jqmaster.api.namespaces import views
from jqmaster.api.namespaces.move_schemas import MoveRequest, SlotMoveRequest
from jqmaster.api.namespaces.schemas import NamespaceRequest
from jqmaster.api.services import NamespaceServices
from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.errors import DamagedError, FieldError, InvalidError
from jqmaster.service.namespaces.documents import no_namespace


async def list_namespaces(call: Call) -> Reply:
    call.query()
    current = _services(call).registry.current
    return Reply(
        200,
        {"namespaces": [views.namespace_view(one) for one in current.values() if _is_shown(call, one.name)]},
    )


async def get(call: Call) -> Reply:
    call.query()
    if not _is_shown(call, name := call.path["name"]):
        raise no_namespace(name)
    return await _detailed(call, 200)


async def put(call: Call) -> Reply:
    services, name, demands = _services(call), call.path["name"], precondition(call)
    request = await call.read(NamespaceRequest)
    check_name(request.name, name)
    is_new = await services.editor.put(name, request.model_dump(), who=call.who, demands=demands)
    return _shown(await services.editor.get(name), 201 if is_new else 200)


async def delete(call: Call) -> Reply:
    services, name = _services(call), call.path["name"]
    query = call.query("confirm", "force")
    if query.get("confirm") != name:
        rule = f"must be {name[:64]}: repeat the name of the namespace to confirm its deletion"
        raise InvalidError(f"confirm: {rule}", errors=[FieldError(("query", "confirm"), rule)])
    is_forced = _is_forced(query)
    await services.editor.delete(name, who=call.who, is_forced=is_forced, demands=precondition(call))
    return Reply(204)


async def close(call: Call) -> Reply:
    services, name = _services(call), call.path["name"]
    await services.editor.close(name, call.who)
    return _shown(await services.editor.get(name), 200)


async def open_again(call: Call) -> Reply:
    services, name = _services(call), call.path["name"]
    await services.editor.open(name, call.who)
    return _shown(await services.editor.get(name), 200)


async def move(call: Call) -> Reply:
    services, name = _services(call), call.path["name"]
    request = await call.read(MoveRequest)
    if request.dry_run:
        return Reply(200, views.plan_view(await services.moves.plan(name, request.store)))
    await services.moves.begin(name, request.store, call.who)
    return await _detailed(call, 202)


async def abort_move(call: Call) -> Reply:
    is_forced = _is_forced(call.query("force"))
    await _services(call).moves.abort(call.path["name"], call.who, is_forced=is_forced)
    return await _detailed(call, 202)


async def get_slot(call: Call) -> Reply:
    call.query()
    if not _is_shown(call, name := call.path["name"]):
        raise no_namespace(name)
    return await _slot(call, 200)


async def move_slot(call: Call) -> Reply:
    slots, name = _services(call).slots, call.path["name"]
    request = await call.read(SlotMoveRequest)
    if request.dry_run:
        return Reply(200, views.slot_plan_view(await slots.plan(name, request.node)))
    await slots.begin(name, request.node, call.who)
    return await _slot(call, 202)


async def abort_slot_move(call: Call) -> Reply:
    call.query()
    await _services(call).slots.abort(call.path["name"], call.who)
    return await _slot(call, 202)


async def overview(call: Call) -> Reply:
    call.query()
    found = await _services(call).overview.all()
    shown = [views.overview_view(one) for one in found if _is_shown(call, one.namespace.name)]
    return Reply(200, {"namespaces": shown})


async def list_stores(call: Call) -> Reply:
    call.query()
    services = _services(call)
    namespaces = [one for one in services.registry.current.values() if _is_shown(call, one.name)]
    stores = await services.places.stores()
    return Reply(200, {"stores": [views.store_view(one, namespaces) for one in stores]})


def _is_forced(query: Mapping[str, str]) -> bool:
    force = query.get("force", "false")
    if force not in ("true", "false"):
        raise InvalidError(
            "force: must be true or false", errors=[FieldError(("query", "force"), "must be true or false")]
        )
    return force == "true"


def _is_shown(call: Call, name: str) -> bool:
    """Return whether the caller may know that this namespace exists."""
    members = call.known.by_namespace
    return members is None or name in members


def _services(call: Call) -> NamespaceServices:
    services = call.services.namespaces
    # This is never None, because these routes exist only at the paths of the installation.
    assert services is not None
    return services


async def _detailed(call: Call, status: int) -> Reply:
    services, name = _services(call), call.path["name"]
    namespace = await services.editor.get(name)
    move, fault = None, ""
    try:
        move = await services.moves.of(name)
    except DamagedError as exc:
        fault = exc.detail
    return Reply(status, views.details_view(namespace, move, fault), etag_header(namespace.etag))


async def _slot(call: Call, status: int) -> Reply:
    return Reply(status, views.slot_view(*await _services(call).slots.place(call.path["name"])))


def _shown(namespace: Namespace, status: int) -> Reply:
    return Reply(status, views.namespace_view(namespace), etag_header(namespace.etag))
