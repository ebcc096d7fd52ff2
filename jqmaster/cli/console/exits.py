"""Exit codes, which have the same meaning for every command."""

import contextlib
import errno
from collections.abc import Iterator
from typing import Final, NoReturn

import typer

from jqmaster.errors import (
    JqmasterError,
    NotFoundError,
    OutcomeUnknownError,
    OverloadedError,
    StoreUnavailableError,
)
from worker_sdk.command_line.ends import (
    FAILED,
    NOT_FOUND,
    OK,
    REFUSED,
    UNREACHABLE,
    USAGE,
    CommandError,
    tell,
)

CHANGES: Final = 6
# Errors after which the same command may succeed later.
PASSING: Final = (StoreUnavailableError, OverloadedError, OutcomeUnknownError)

TABLE: Final = (
    (OK, "done"),
    (
        FAILED,
        "the job did not succeed, or not in time; or health, doctor, fsck, conformance, seal check or "
        "targets test found a fault",
    ),
    (
        USAGE,
        "an argument, an option, a variable, a file or a setting is not valid according to the command or "
        "the master",
    ),
    (
        NOT_FOUND,
        "there is no such object or no data of the shard, its result is not kept, or no job came in time",
    ),
    (
        REFUSED,
        "the master, the store or the system refused the call, for example because of a missing right, the "
        "object's state, a limit, or a port or directory in use",
    ),
    (UNREACHABLE, "the master or the store cannot be reached or cannot work now; try again later"),
    (CHANGES, "plan only: there are changes to make"),
)
# Codes of 422 answers about valid values that the master cannot accept now.
_REFUSED_VALUES: Final = frozenset({"mail_off", "unchecked_argument", "unserved_name", "webhooks_off"})

__all__ = (
    "CHANGES", "FAILED", "NOT_FOUND", "OK", "PASSING", "REFUSED", "TABLE", "UNREACHABLE", "USAGE", "code_of",
    "code_of_answer", "fail", "told",
)  # fmt: skip


def fail(code: int, text: str) -> NoReturn:
    """Print the reason to standard error and exit."""
    tell(text)
    raise typer.Exit(code)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Run the block. Print an expected error as one line on standard error, and exit with its code."""
    try:
        yield
    except CommandError as error:
        tell(error)
        raise typer.Exit(error.code) from None
    except JqmasterError as error:
        fail(code_of(error), error.detail)
    except OSError as error:
        if error.errno == errno.EPIPE:  # the program that reads the output has closed it
            raise
        place = f"{error.filename}: " if error.filename else ""
        fail(REFUSED, f"{place}{error.strerror or error}")


def code_of(error: JqmasterError) -> int:
    """Return the exit code for this error."""
    if isinstance(error, NotFoundError):
        return NOT_FOUND
    return UNREACHABLE if isinstance(error, PASSING) else REFUSED


def code_of_answer(status: int, code: str) -> int:
    """Return the exit code for a master's answer with this status and problem code."""
    if status == 404 or (status < 500 and code.startswith("unknown_")):
        return NOT_FOUND
    if status >= 500 or status == 408:
        return UNREACHABLE
    return USAGE if status in (400, 422) and code not in _REFUSED_VALUES else REFUSED
