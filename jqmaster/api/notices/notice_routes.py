"""Routes of notices."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.notices import notice_handlers as handlers
from jqmaster.api.notices import notice_schemas as schemas
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_PUT_TEXT: Final = (
    "Creates the notice, or replaces it. It tells of what happens from then on. A URL that is sent back as it was "
    "shown stays as it is. Without preconditions, the last writer wins."
)
_DELETE_TEXT: Final = "Its pending messages are not sent, except for deliveries that are made already."
_MUTE_TEXT: Final = (
    "A muted notice sends no messages. Nothing that is counted meanwhile is told later; a condition that began "
    "meanwhile and still lasts afterwards is."
)
_ACKNOWLEDGE_TEXT: Final = (
    "No more messages are sent about the open incidents until each is over. An incident of what is counted is over "
    "when nothing more is counted for `at_most_every_s`."
)
_TEST_TEXT: Final = (
    "Sends a test message to all destinations within seconds, also if the notice is muted. Its deliveries are jobs "
    "with the tag `notice:NAME`."
)

OPERATIONS: Final = [
    Operation("GET", "/api/notices", handlers.list_notices, Scope.READ, "List notices", "notices",
              {200: schemas.NoticeList}, problems=_STORE),
    Operation("GET", "/api/notices/{name}", handlers.get, Scope.READ, "Get a notice", "notices",
              {200: schemas.NoticeView}, problems=(404, *_STORE)),
    Operation("PUT", "/api/notices/{name}", handlers.put, Scope.OPERATE, "Create or replace a notice", "notices",
              {200: schemas.NoticeView, 201: schemas.NoticeView}, schemas.NoticeRequest,
              problems=(409, 412, *_STORE), text=_PUT_TEXT),
    Operation("DELETE", "/api/notices/{name}", handlers.delete, Scope.OPERATE, "Delete a notice", "notices",
              {204: None}, problems=(404, 412, *_STORE), text=_DELETE_TEXT),
    Operation("POST", "/api/notices/{name}/mute", handlers.mute, Scope.OPERATE, "Mute a notice", "notices",
              {200: schemas.NoticeView}, schemas.MuteNoticeRequest, problems=(404, 412, *_STORE), text=_MUTE_TEXT),
    Operation("POST", "/api/notices/{name}/acknowledge", handlers.acknowledge, Scope.OPERATE,
              "Acknowledge incidents", "notices", {200: schemas.AcknowledgeAnswer}, schemas.AcknowledgeRequest,
              problems=(404, *_STORE), text=_ACKNOWLEDGE_TEXT),
    Operation("POST", "/api/notices/{name}/test", handlers.test, Scope.OPERATE, "Send a test message", "notices",
              {202: schemas.NoticeTest}, problems=(404, *_STORE), text=_TEST_TEXT),
]  # fmt: skip
