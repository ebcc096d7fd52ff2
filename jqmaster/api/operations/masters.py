"""Masters over HTTP."""

from typing import Any

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.domain.instant import iso_ms
from jqmaster.service.workers.masters import ListedMaster


async def list_masters(call: Call) -> Reply:
    call.query()
    masters, epoch = await call.services.masters.all()
    return Reply(200, {"masters": [_master_view(one) for one in masters], "epoch": epoch})


async def demote(call: Call) -> Reply:
    call.query()
    who = call.principal.name if call.principal else ""
    master_id = call.path["master_id"]
    epoch = await call.services.masters.demote(master_id, who)
    return Reply(202, {"id": master_id, "epoch": epoch})


def _master_view(listed: ListedMaster) -> dict[str, Any]:
    """Return a `MasterView`."""
    record = listed.seen.record
    return {
        "id": record.id,
        "role": str(listed.role),
        "state": "fresh" if listed.is_fresh else "stale",
        "node_id": record.node_id,
        "pid": record.pid,
        "url": record.url,
        "version": record.version,
        "started_at": iso_ms(record.started_at_ms),
        "last_seen_at": iso_ms(listed.seen.last_seen_ms),
    }
