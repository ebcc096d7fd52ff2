"""Masters over HTTP."""

from jqmaster.api import views
from jqmaster.api.http.endpoint import Call, Reply


async def list_masters(call: Call) -> Reply:
    call.query()
    masters, epoch = await call.services.masters.all()
    return Reply(200, {"masters": [views.master_view(one) for one in masters], "epoch": epoch})


async def demote(call: Call) -> Reply:
    call.query()
    who = call.principal.name if call.principal else ""
    master_id = call.path["master_id"]
    epoch = await call.services.masters.demote(master_id, who)
    return Reply(202, {"id": master_id, "epoch": epoch})
