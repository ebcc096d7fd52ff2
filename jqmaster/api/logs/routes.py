"""Routes of logs of jobs."""

from typing import Any, Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.logs import handlers, schemas
from jqmaster.domain.identity.access import Scope
from jqmaster.domain.logs.lines import LEVELS

_STORE: Final = (503,)
FILTER: Final[dict[str, Any]] = {
    "level": {
        "schema": {"type": "string", "enum": [str(level) for level in LEVELS], "default": "debug"},
        "description": "Only lines of this level or a higher one.",
    },
    "attempt": {"schema": {"type": "integer", "minimum": 1}, "description": "Only lines of this attempt."},
}
_PAGE: Final[dict[str, Any]] = {
    "after": {
        "schema": {"type": "integer", "minimum": 0, "default": 0},
        "description": "Return only lines after this number, which is the `next` of the previous answer.",
    },
    "tail": {
        "schema": {"type": "integer", "minimum": 1, "maximum": handlers.MAX_TAIL},
        "description": "Begin at most this many lines before the newest line.",
    },
    "limit": {
        "schema": {
            "type": "integer",
            "minimum": 1,
            "maximum": handlers.MAX_PAGE,
            "default": handlers.DEFAULT_PAGE,
        },
        "description": "Maximum number of lines.",
    },
    **FILTER,
    "wait": {
        "schema": {"type": "number", "minimum": 0, "default": 0},
        "description": (
            "Seconds to wait for lines after `after` or for the end of the job, at most 60. If "
            "too many callers already wait, the answer comes at once, with Retry-After."
        ),
    },
}
_SAVE_TEXT: Final = (
    "Send the lines of many jobs in one call. Do not delay results because of log lines. The master accepts "
    "lines while the worker holds the job under this token. It also accepts them for a minute after the "
    "attempt has ended or another claim has taken the job. Invalid entries are left out, and the answer "
    "names them. Beyond `max_log_bytes` or `max_logs_bytes`, the oldest lines are removed, and `dropped` "
    "counts them."
)
_ERASE_TEXT: Final = (
    "Erases the log of a finished job, or the archived log of a removed job. Nobody can read the log "
    "afterwards. The objects of the log are removed as soon as the archive answers. The job stays. The call "
    "is refused with 409 until a minute after the end of the job, because lines may still arrive."
)
_PAGE_TEXT: Final = (
    "Lines that are no longer in the store are read from the archive, even if the job is gone. Each call "
    "examines a bounded number of lines. So if a filter selects few lines, a page may be empty although "
    "more lines follow. Call again with `next`."
)

OPERATIONS: Final = [
    Operation("GET", "/api/jobs/{job_id}/logs", handlers.page, Scope.READ, "Get log lines of a job", "jobs",
              {200: schemas.LogPage}, query=_PAGE, problems=(404, 502, *_STORE), text=_PAGE_TEXT, has_effect=True),
    Operation("DELETE", "/api/jobs/{job_id}/logs", handlers.erase, Scope.OPERATE, "Erase the log of a job",
              "jobs", {204: None}, problems=(404, 409, *_STORE), text=_ERASE_TEXT),
    Operation("POST", "/api/workers/{worker_id}/logs", handlers.save, Scope.WORK, "Send log lines", "workers",
              {200: schemas.LogsAnswer}, schemas.LogsRequest, problems=(404, 413, *_STORE), text=_SAVE_TEXT),
]  # fmt: skip
