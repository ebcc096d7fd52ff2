"""Probes, metrics, and the OpenAPI document."""

from http import HTTPStatus
from typing import Final

from jqmaster.api.encoding.negotiation import has_tag, negotiate, takes_gzip
from jqmaster.api.http.endpoint import STORE, Call, Reply
from jqmaster.api.http.security_headers import DATA_HEADERS, NO_STORE
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.namespaces.namespace import OTHER_NAMESPACES
from jqmaster.service.operations.metrics import CONTENT_TYPE

# Headers that make clients revalidate a cached answer each time. The answer is usually 304.
_CACHED: Final = (
    *(field for field in DATA_HEADERS if field != NO_STORE),
    (b"cache-control", b"no-cache"),
    (b"vary", b"accept, accept-encoding"),
)


async def healthz(call: Call) -> Reply:
    """Show that the process is alive. The ID in the answer distinguishes this process from a later process at the
    same address."""
    return Reply(200, {"status": "ok", "id": call.services.master_id})


async def readyz(call: Call) -> Reply:
    """Return whether this master makes progress.

    The store must answer, and a master must lead. If this master leads, its rounds must make progress.

    Anybody may call this route, because probes have no token. Only callers with the right to read see the details
    of faults, because details may name paths and addresses.
    """
    condition = await call.services.condition()
    others = condition.other_faults
    if call.may(Scope.READ):
        store, faults = condition.store, list(condition.faults.values())
        names = call.known.namespaces_with(Scope.READ)
        seen = [fault for name, fault in others.items() if names is None or name in names]
        duty_faults = [*condition.duty_faults.values(), *seen]
    else:
        store, faults = "not serving" if "store" in condition.faults else "serving", list(condition.faults)
        duty_faults = [*condition.duty_faults, *([OTHER_NAMESPACES] if others else [])]
    body = {
        "status": "not_ready" if condition.faults else "ready",
        "durability": condition.durability,
        "durability_available": condition.durability_available,
        "leader": condition.is_leader,
        "store": store,
        "faults": faults,
        # Show these faults, but do not report the master as unready. Other masters would have the same faults.
        "duty_faults": duty_faults,
    }
    if condition.faults:
        return Reply(503, body, ((b"retry-after", b"1"),))
    return Reply(200, body)


async def openapi(call: Call) -> Reply:
    form = await call.services.openapi.form(negotiate(call.fields), is_packed=takes_gzip(call.fields))
    headers = ((STORE, call.services.store_id.encode()), (b"etag", form.tag))
    if has_tag(call.fields, form.tag):
        return Reply(HTTPStatus.NOT_MODIFIED, headers=headers, security_headers=_CACHED)
    packed = ((b"content-encoding", b"gzip"),) if form.is_packed else ()
    return Reply(HTTPStatus.OK, form.body, (*headers, *packed), form.media_type, security_headers=_CACHED)


async def metrics(call: Call) -> Reply:
    call.query()
    text = await call.services.metrics.text(call.known.namespaces_with(Scope.READ))
    return Reply(200, text, media_type=CONTENT_TYPE.encode())
