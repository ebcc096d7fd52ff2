"""Exit codes, the same for every command."""

import contextlib
from typing import Final, NoReturn

import typer

from jqmaster.errors import JqmasterError, NotFoundError, OutcomeUnknownError, StoreUnavailableError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
REFUSED: Final = 4
UNREACHABLE: Final = 5

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
    from jqmaster.cli.console import output

    # The exit code still tells the reason if the text cannot be written.
    with contextlib.suppress(OSError):
        output.echo(f"Error: {output.escape_controls(text)}", is_error=True)
    raise typer.Exit(code)


def code_of(error: JqmasterError) -> int:
    if isinstance(error, NotFoundError):
        return NOT_FOUND
    return UNREACHABLE if isinstance(error, StoreUnavailableError | OutcomeUnknownError) else REFUSED
