"""Probes, metrics, and the contract itself."""

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.domain.identity.access import Scope
from jqmaster.service.operations.metrics import CONTENT_TYPE


async def healthz(call: Call) -> Reply:
    """Answer as long as the process does. The ID distinguishes it from a process that has taken over its address."""
    return Reply(200, {"status": "ok", "id": call.services.master_id})


async def readyz(call: Call) -> Reply:
    """Return whether this master makes progress: its store answers, some master leads, and a leader's rounds go on.

    Probes come without a token, and so may anybody. Only readers see fault details, which may name paths and
    addresses.
    """
    condition = await call.services.condition()
    if call.may(Scope.READ):
        store, faults = condition.store, list(condition.faults.values())
        duty_faults = list(condition.duty_faults.values())
    else:
        store, faults = "not serving" if "store" in condition.faults else "serving", list(condition.faults)
        duty_faults = list(condition.duty_faults)
    body = {
        "status": "not_ready" if condition.faults else "ready",
        "durability": condition.durability,
        "durability_available": condition.durability_available,
        "leader": condition.is_leader,
        "store": store,
        "faults": faults,
        # They do not make the master unready: another one would do its work no better.
        "duty_faults": duty_faults,
    }
    if condition.faults:
        return Reply(503, body, ((b"retry-after", b"1"),))
    return Reply(200, body)


async def openapi(call: Call) -> Reply:
    return Reply(200, call.services.contract())


async def metrics(call: Call) -> Reply:
    call.query()
    return Reply(200, await call.services.metrics.text(), media_type=CONTENT_TYPE.encode())
