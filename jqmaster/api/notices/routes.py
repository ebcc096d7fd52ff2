"""Routes of notices, and of webhooks' deliveries."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.notices import handlers, notice_handlers, schemas
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_PUT_TEXT: Final = (
    "Creates the notice, or replaces it. The notice reports only later findings. If you send a URL back as "
    "it was shown, it is not changed. Without preconditions, the last writer wins."
)
_DELETE_TEXT: Final = (
    "Pending messages of the notice are not sent. Deliveries that already exist are still made."
)
_MUTE_TEXT: Final = (
    "A muted notice sends no messages. Findings that are counted while it is muted are not reported later. "
    "A lasting condition that began while it was muted is reported later if it still holds."
)
_ACKNOWLEDGE_TEXT: Final = (
    "Open incidents cause no more messages until they are over. If the condition is counted, an incident is "
    "over when no finding was counted for `at_most_every_s` seconds."
)
_TEST_TEXT: Final = (
    "Sends a test message to all destinations within seconds, even if the notice is muted. Its deliveries are "
    "jobs with the tag `notice:NAME`."
)
_LIST_TEXT: Final = (
    "A job with `notify` has one delivery for each time that it ended in a state listed in `on`. Deliveries "
    "that succeeded are kept for as long as succeeded jobs."
)
_RESEND_TEXT: Final = (
    "Calls the webhook again, with the same `webhook-id` and body. If the delivery waits for its next "
    "attempt, this attempt is made now. The answer is 409 while an attempt is in progress. The audit log "
    "records the call."
)

OPERATIONS: Final = [
    Operation("GET", "/api/notices", notice_handlers.list_notices, Scope.READ, "List notices", "notices",
              {200: schemas.NoticeList}, problems=_STORE),
    Operation("GET", "/api/notices/{name}", notice_handlers.get, Scope.READ, "Get a notice", "notices",
              {200: schemas.NoticeView}, problems=(404, *_STORE)),
    Operation("PUT", "/api/notices/{name}", notice_handlers.put, Scope.OPERATE, "Create or replace a notice", "notices",
              {200: schemas.NoticeView, 201: schemas.NoticeView}, schemas.NoticeRequest,
              problems=(409, 412, *_STORE), text=_PUT_TEXT),
    Operation("DELETE", "/api/notices/{name}", notice_handlers.delete, Scope.OPERATE, "Delete a notice", "notices",
              {204: None}, problems=(404, 412, *_STORE), text=_DELETE_TEXT),
    Operation("POST", "/api/notices/{name}/mute", notice_handlers.mute, Scope.OPERATE, "Mute a notice", "notices",
              {200: schemas.NoticeView}, schemas.MuteNoticeRequest, problems=(404, 412, *_STORE), text=_MUTE_TEXT),
    Operation("POST", "/api/notices/{name}/acknowledge", notice_handlers.acknowledge, Scope.OPERATE,
              "Acknowledge incidents", "notices", {200: schemas.AcknowledgeAnswer}, schemas.AcknowledgeRequest,
              problems=(404, *_STORE), text=_ACKNOWLEDGE_TEXT),
    Operation("POST", "/api/notices/{name}/test", notice_handlers.test, Scope.OPERATE, "Send a test message", "notices",
              {202: schemas.NoticeTest}, problems=(404, *_STORE), text=_TEST_TEXT),
    Operation("GET", "/api/jobs/{job_id}/deliveries", handlers.of_job, Scope.READ,
              "List the webhook deliveries of a job", "webhooks", {200: schemas.DeliveryList},
              problems=(404, *_STORE), text=_LIST_TEXT),
    Operation("POST", "/api/jobs/{job_id}/deliveries/{delivery_id}/resend", handlers.resend, Scope.OPERATE,
              "Send a webhook again", "webhooks", {202: schemas.DeliveryView}, problems=(404, 409, *_STORE),
              text=_RESEND_TEXT),
]  # fmt: skip
