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
    "Call this before the outside system gets its work, so that no callback can come too early, and report "
    "the attempt as `challenged` afterwards. A second challenge of the same attempt makes the first one void, "
    "unless the call has the `nonce` of the first. The answer is 409 `no_public_url` if the master listens on "
    "a network and has no `public_url`, 409 `stale_token` if the worker does not hold the job, and 409 "
    "`challenge_answered` if all callbacks have come."
)
_CALLBACK_TEXT: Final = (
    "Answers a challenge with any body, of at most `max_argument_bytes`, which the job's handler gets with "
    "its content type. The request ID is the credential. The answer is 202 for a new callback, 200 if the "
    "same callback came before, 409 `callback_conflict` if a different callback came before, 410 "
    "`challenge_over` after the attempt, and 404 for an unknown ID. If several callbacks are expected, each "
    "of those with equal bodies needs its own `Idempotency-Key`. A challenge with a form takes "
    "`{choice, comment, values}` in JSON or MessagePack, or as its page sends it: people who may not answer "
    "get 401 or 403, and 422 names each field and its rule."
)
_PAGE_TEXT: Final = (
    "For a challenge with a form: sends browsers a page on which people answer it, and other clients the form. The "
    "request ID is the credential; with `audience` `users`, the caller must also be logged in and have the scope "
    "`operate`. The answer is 404 `no_form` for a challenge that another system answers."
)
_ANSWER_TEXT: Final = (
    "Answers a challenge instead of the outside system, with the body as the callback. The audit log records "
    "the call. A challenge with a form takes `{choice, comment, values}`, and its record says who answered."
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
