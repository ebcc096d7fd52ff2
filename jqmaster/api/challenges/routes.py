"""Routes of challenges and callbacks."""

from typing import Any, Final

from jqmaster.api.challenges import handlers, people, schemas
from jqmaster.api.http.endpoint import Operation
from jqmaster.domain.challenges.challenge import ChallengeState
from jqmaster.domain.identity.access import Scope

_STORE: Final = (503,)
_QUERY: Final[dict[str, Any]] = {
    "state": {
        "schema": {"type": "string", "enum": [str(state) for state in ChallengeState]},
        "description": "Show only challenges in this state.",
    },
    "name": {"schema": {"type": "string"}, "description": "Show only challenges of jobs with this name."},
    "limit": {
        "schema": {"type": "integer", "minimum": 1, "maximum": handlers.MAX_PAGE, "default": 100},
        "description": "Number of challenges after which a page ends. All challenges of a job are on the same page.",
    },
    "cursor": {"schema": {"type": "string"}, "description": "`next_cursor` of the previous page."},
}
_OPEN_TEXT: Final = (
    "Call this before the outside system gets its work, so that no callback can come too early. Report the "
    "attempt as `challenged` afterwards. A second challenge of the same attempt makes the first challenge "
    "void. A repeated call with the same `nonce` opens no second challenge. The answer is 409 with one of "
    "these codes:\n\n* `no_public_url`: the master listens on a network and has no `public_url`.\n* "
    "`stale_token`: the worker does not hold the job.\n* `challenge_answered`: all callbacks have come."
)
_CALLBACK_TEXT: Final = (
    "Answers a challenge. The body may have any content and at most `max_argument_bytes`. The job's handler "
    "gets it with its content type. The request ID is the credential. The status of the answer is:\n\n* "
    "202: the callback is new.\n* 200: the same callback came before.\n* 409 `callback_conflict`: a "
    "different callback came before.\n* 410 `challenge_over`: the attempt has ended.\n* 404: the ID is "
    "unknown.\n\nIf several callbacks are expected, callbacks with equal bodies each need their own "
    "`Idempotency-Key`. A challenge with a form takes `{choice, comment, values}` in JSON or MessagePack, "
    "or the form that its page sends. People who may not answer get 401 or 403. A 422 names each invalid "
    "field and its rule."
)
_PAGE_TEXT: Final = (
    "For a challenge with a form: sends browsers a page on which people answer, and sends other clients the "
    "form. The request ID is the credential. If `audience` is `users`, the caller must also be logged in "
    "and have the scope `operate`. The answer is 404 `no_form` for a challenge that another system answers."
)
_ANSWER_TEXT: Final = (
    "Answers a challenge instead of the outside system, with the body as the callback. The audit log "
    "records the call. A challenge with a form takes `{choice, comment, values}`. Its record names the "
    "person who answered."
)

OPERATIONS: Final = [
    Operation("POST", "/api/workers/{worker_id}/challenges", handlers.open_challenge, Scope.WORK, "Open a challenge",
              "challenges", {201: schemas.OpenChallengeAnswer}, schemas.OpenChallengeRequest,
              problems=(404, 409, 413, *_STORE), text=_OPEN_TEXT),
    Operation("GET", "/callbacks/{request_id}", people.show, None, "Show a challenge to people", "challenges",
              {200: schemas.PersonalChallengeView}, problems=(401, 403, 404, 410, 429, *_STORE), text=_PAGE_TEXT,
              has_page=True),
    Operation("POST", "/callbacks/{request_id}", handlers.call_back, None, "Answer a challenge", "challenges",
              {202: schemas.CallbackReceipt, 200: schemas.CallbackReceipt},
              problems=(401, 403, 404, 409, 410, 413, 415, 429, *_STORE), text=_CALLBACK_TEXT, takes_any_body=True),
    Operation("POST", "/callbacks/{request_id}/progress", handlers.tell_progress, None,
              "Report the progress of a challenge", "challenges", {204: None}, schemas.CallbackProgressRequest,
              problems=(403, 404, 410, 429, *_STORE)),
    Operation("GET", "/api/challenges", handlers.list_challenges, Scope.READ, "List challenges", "challenges",
              {200: schemas.ChallengeList}, query=_QUERY, problems=_STORE),
    Operation("GET", "/api/jobs/{job_id}/challenges", handlers.of_job, Scope.READ, "List the challenges of a job",
              "challenges", {200: schemas.ChallengeList}, problems=(404, *_STORE)),
    Operation("POST", "/api/jobs/{job_id}/challenges/{request}/callback", handlers.answer, Scope.OPERATE,
              "Answer a challenge for the outside system", "challenges",
              {202: schemas.CallbackReceipt, 200: schemas.CallbackReceipt},
              problems=(404, 409, 410, 413, 415, *_STORE), text=_ANSWER_TEXT, takes_any_body=True),
]  # fmt: skip
