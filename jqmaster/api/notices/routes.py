"""Routes of webhooks' deliveries, and of notices."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.notices import handlers, notice_routes, schemas
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_LIST_TEXT: Final = (
    "A job with `notify` has a delivery for each time it ended in a state listed in `on`. A delivery that succeeded is "
    "kept as long as succeeded jobs are."
)
_RESEND_TEXT: Final = (
    "Calls the webhook again, with the same `webhook-id` and body. A delivery that waits for its next attempt is tried "
    "now. The answer is 409 while it is under way. It is written to the audit log."
)

OPERATIONS: Final = [
    *notice_routes.OPERATIONS,
    Operation("GET", "/api/jobs/{job_id}/deliveries", handlers.of_job, Scope.READ,
              "List the webhook deliveries of a job", "webhooks", {200: schemas.DeliveryList},
              problems=(404, *_STORE), text=_LIST_TEXT),
    Operation("POST", "/api/jobs/{job_id}/deliveries/{delivery_id}/resend", handlers.resend, Scope.OPERATE,
              "Send a webhook again", "webhooks", {202: schemas.DeliveryView}, problems=(404, 409, *_STORE),
              text=_RESEND_TEXT),
]  # fmt: skip
