"""Exit codes, the same for every command."""

import contextlib
from collections.abc import Iterator
from typing import Final, NoReturn

import typer

from jqmaster.errors import JqmasterError, NotFoundError, OutcomeUnknownError, StoreUnavailableError
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

__all__ = ("FAILED", "NOT_FOUND", "OK", "REFUSED", "TABLE", "UNREACHABLE", "USAGE", "code_of", "fail", "told")

TABLE: Final = (
    (OK, "done"),
    (FAILED, "the job did not succeed (in time), or doctor, fsck or conformance found a fault"),
    (USAGE, "the command line or the settings are not valid; for `plan`: there are changes to make"),
    (
        NOT_FOUND,
        "the job, constraint or master does not exist, the result is not kept, or no job came in time",
    ),
    (REFUSED, "the master or the store refused, or the data directory is in use"),
    (UNREACHABLE, "the master or the store cannot be reached or cannot work now; try again later"),
)


def fail(code: int, text: str) -> NoReturn:
    """Print the reason to standard error and exit."""
    tell(text)
    raise typer.Exit(code)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Print the reason of a CommandError to standard error, and exit with its code."""
    try:
        yield
    except CommandError as error:
        tell(error)
        raise typer.Exit(error.code) from None


def code_of(error: JqmasterError) -> int:
    if isinstance(error, NotFoundError):
        return NOT_FOUND
    return UNREACHABLE if isinstance(error, StoreUnavailableError | OutcomeUnknownError) else REFUSED
