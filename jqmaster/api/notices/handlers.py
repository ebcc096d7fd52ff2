"""Deliveries of webhooks over HTTP."""

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.notices import views
from jqmaster.errors import after_it_was_done
from jqmaster.store.identity.audit import encode_entry


async def of_job(call: Call) -> Reply:
    call.query()
    found = await call.services.deliveries.of_job(call.path["job_id"])
    return Reply(200, {"deliveries": [views.delivery_view(one, call.content) for one in found]})


async def resend(call: Call) -> Reply:
    job_id, delivery_id = call.path["job_id"], call.path["delivery_id"]
    delivery = await call.services.deliveries.resend(job_id, delivery_id)
    with after_it_was_done():
        entry = encode_entry(
            who=call.who, action="webhook.resend", target=job_id, before=None, after={"delivery": delivery_id}
        )
        await call.services.audit_writer.write(entry)
    return Reply(202, views.delivery_view(delivery, call.content))
