"""Management commands as jobs: each in a process of its own."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from worker_sdk import Context, Fail

logger = logging.getLogger("worker_sdk.django.command")

# The names of these jobs are this and the name of the command.
COMMAND_PREFIX: Final = "manage/"
# Lines of the output that are kept with the job.
_KEPT_LINES: Final = 100
_MAX_LINE: Final = 500
_END_WITHIN_S: Final = 10.0


class CommandFailed(Exception):  # noqa: N818 - what happened
    """The process of a management command ended with another exit code than 0.

    * `exit_code`: the code; negative for the number of a signal.
    """

    def __init__(self, command: str, exit_code: int, output: str) -> None:
        super().__init__(f"manage.py {command} ended with exit code {exit_code}\n{output}".rstrip())
        self.exit_code = exit_code


def run_command(argument: Any, ctx: Context) -> dict[str, Any]:
    """Run the management command of a job, and return its exit code and the end of its output.

    The argument is a map with `args`, a list of texts. The process leads a process group of its own, which is ended
    when the job is canceled or its time is over. Each line of its output is logged.
    """
    command = ctx.name.removeprefix(COMMAND_PREFIX)
    given = argument.get("args", []) if isinstance(argument, Mapping) else []
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise Fail("args must be a list of texts")
    process = subprocess.Popen(  # noqa: S603 - a command that the settings list, without a shell
        [*_manage(), command, *given],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
        env={**os.environ, "JQMASTER_JOB_ID": ctx.job_id},
    )
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    reader = threading.Thread(target=_read, args=(process, command, ctx.job_id, lines), daemon=True)
    reader.start()
    while process.poll() is None:
        if ctx.cancelled.wait(0.1):
            _end(process)
    # Processes that the command started may still hold its output: they are not waited for.
    reader.join(1.0)
    output = "".join(lines)
    if process.returncode:
        raise CommandFailed(command, process.returncode, output)
    return {"exit_code": 0, "output": output}


def _read(process: "subprocess.Popen[str]", command: str, job_id: str, lines: "deque[str]") -> None:
    assert process.stdout is not None
    with contextlib.closing(process.stdout) as output:
        for line in output:
            lines.append(line[:_MAX_LINE])
            logger.info("%s: %s", command, line.rstrip()[:_MAX_LINE], extra={"job_id": job_id})


def _end(process: "subprocess.Popen[str]") -> None:
    """End the whole group of a process: in good order, and after a while at once."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_WITHIN_S)
            return


def _manage() -> list[str]:
    """Return how this site starts management commands."""
    return [sys.executable, "-m", "django"] if not _manage_file() else [sys.executable, _manage_file()]


def _manage_file() -> str:
    """Return the path of manage.py, if this process was started by it."""
    file = os.path.abspath(sys.argv[0])
    return file if os.path.basename(file) == "manage.py" and os.path.isfile(file) else ""
