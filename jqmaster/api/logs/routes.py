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
        "description": "Only lines of this level or above.",
    },
    "attempt": {"schema": {"type": "integer", "minimum": 1}, "description": "Only lines of this attempt."},
}
_PAGE: Final[dict[str, Any]] = {
    "after": {
        "schema": {"type": "integer", "minimum": 0, "default": 0},
        "description": "Only lines behind this one: `next` of the answer before.",
    },
    "tail": {
        "schema": {"type": "integer", "minimum": 1, "maximum": handlers.MAX_TAIL},
        "description": "Begin at most this many lines before the newest one.",
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
        "description": "Seconds to wait for lines behind `after`, or the end of the job; at most 60. If too many "
        "callers wait already, the answer comes at once, with Retry-After.",
    },
}
_SAVE_TEXT: Final = (
    "Send the lines of many jobs together, and results without waiting for them. Lines are kept while the worker holds "
    "the job under this token, and for a minute after its attempt is over or another claim took the job. Invalid "
    "entries are left out, and the answer names them. Beyond `max_log_bytes` and `max_logs_bytes` the oldest lines go, "
    "which `dropped` says."
)
_ERASE_TEXT: Final = (
    "For a job that is over, and for one that its retention has removed and whose log the archive keeps. From now on "
    "nobody can read it; its objects are removed as soon as the archive answers. The job stays. Refused with 409 while "
    "lines may still arrive: until a minute after the end of the job."
)
_PAGE_TEXT: Final = (
    "Lines are read from the archive where they are no longer in the store, also those of a job that is gone. "
    "The page may be empty and not the last one: a filter that selects little reads a bounded number of lines. Call "
    "again with `next`."
)

OPERATIONS: Final = [
    Operation("GET", "/api/jobs/{job_id}/logs", handlers.page, Scope.READ, "Get log lines of a job", "jobs",
              {200: schemas.LogPage}, query=_PAGE, problems=(404, 502, *_STORE), text=_PAGE_TEXT, has_effect=True),
    Operation("DELETE", "/api/jobs/{job_id}/logs", handlers.erase, Scope.OPERATE, "Erase the log of a job",
              "jobs", {204: None}, problems=(404, 409, *_STORE), text=_ERASE_TEXT),
    Operation("POST", "/api/workers/{worker_id}/logs", handlers.save, Scope.WORK, "Send log lines", "workers",
              {200: schemas.LogsAnswer}, schemas.LogsRequest, problems=(404, 413, *_STORE), text=_SAVE_TEXT),
]  # fmt: skip
