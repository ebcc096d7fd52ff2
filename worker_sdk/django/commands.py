"""Management commands as jobs: each in a process of its own."""

import os
import sys
from collections.abc import Mapping
from typing import Any, Final

from worker_sdk import Context, Fail, Interrupted, Retry
from worker_sdk.worker.command import CommandNotStartedError, Ended, Limits, StoppedError, run

# A job that runs a management command is named by this prefix and the name of the command.
COMMAND_PREFIX: Final = "manage/"
# The number of characters, from the end of each output, that are kept with the job.
_MAX_CHARS: Final = 16 * 1024


class CommandFailed(Exception):  # noqa: N818 - what happened
    """The process of a management command ended with another exit code than 0.

    * `exit_code`: the code; negative for the number of a signal.
    """

    def __init__(self, command: str, exit_code: int, how: str, output: str) -> None:
        super().__init__(f"manage.py {command} ended with {how}\n{output}".rstrip())
        self.exit_code = exit_code


def run_command(argument: Any, ctx: Context) -> dict[str, Any]:
    """Run the management command of a job. Return its exit code, and the end of its standard output and of its standard
    error.

    The argument is a map with `args`, a list of texts. The lines of both outputs are the log of the job. The process
    leads a process group of its own. The group is ended when the job is canceled, or when the time of the job is nearly
    over.
    """
    command = ctx.name.removeprefix(COMMAND_PREFIX)
    given = argument.get("args", []) if isinstance(argument, Mapping) else []
    if not isinstance(given, list) or not all(isinstance(one, str) and "\0" not in one for one in given):
        raise Fail("args must be a list of texts")
    env = {
        "JOB_ID": ctx.job_id,
        "JOB_NAME": ctx.name,
        "JOB_ATTEMPT": str(ctx.attempt),
        "JQMASTER_JOB_ID": ctx.job_id,
        # The command writes to a pipe. Unbuffered, its lines arrive as soon as they are written, as on a terminal.
        "PYTHONUNBUFFERED": "1",
    }
    try:
        ended = run(ctx, [*_manage(), command, *given], env=env, cwd=None, limits=Limits())
    except StoppedError:
        raise Interrupted from None
    except CommandNotStartedError as exc:
        raise Retry(message=f"manage.py {command} cannot be started: {exc}") from None
    if ended.code:
        raise CommandFailed(command, ended.code, ended.how, _output(ended))
    return {"exit_code": 0, "output": _output(ended)}


def _output(ended: Ended) -> str:
    return "".join(output.decode(errors="replace")[-_MAX_CHARS:] for output in (ended.stdout, ended.stderr))


def _manage() -> list[str]:
    """Return the command line that starts management commands of this site."""
    return [sys.executable, "-m", "django"] if not _manage_file() else [sys.executable, _manage_file()]


def _manage_file() -> str:
    """Return the path of manage.py, if this process was started by it."""
    file = os.path.abspath(sys.argv[0])
    return file if os.path.basename(file) == "manage.py" and os.path.isfile(file) else ""
