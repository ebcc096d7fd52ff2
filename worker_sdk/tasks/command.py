"""Commands as tasks: each placeholder in an argv is a parameter of the task."""

import keyword
import shlex
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worker_sdk.errors import Discard, Fail, Interrupted, Retry
from worker_sdk.shown import without_content
from worker_sdk.worker.command import CommandNotStartedError, Ended, Limits, StoppedError, run
from worker_sdk.worker.context import Context
from worker_sdk.worker.outcomes import UnfitArgumentError

Value = str | int | float
# The message of a failure is the end of the standard error: at most this many lines and characters.
_MESSAGE_LINES = 10
_MESSAGE_CHARS = 900
# How many characters of the end of each output are stored in the result.
_RESULT_CHARS = 16 * 1024


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """The result of a command job.

    * `exit_code`: exit code of the command.
    * `stdout`, `stderr`: the end of each output of the command, at most 16,384 characters each.

    For example:

        output = CommandOutput(0, "done", "")
        print(output.exit_code, output.stdout)
    """

    exit_code: int
    stdout: str
    stderr: str

    def __repr__(self) -> str:
        return without_content(self, "stdout", "stderr")


class Command:
    """An argv with placeholders, and the meaning of exit codes. Raise ValueError for an argv that cannot be run."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        limits: Limits,
        ok_codes: Collection[int],
        retry_codes: Collection[int] | None,
        discard_codes: Collection[int],
    ) -> None:
        if isinstance(argv, str) or not argv:
            raise ValueError(
                "a command is a list of the program and its arguments, not one text that a shell splits"
            )
        self._parts = [list(string.Formatter().parse(_checked(one))) for one in argv]
        self.names = list(
            dict.fromkeys(_name(part) for parts in self._parts for part in parts if _name(part))
        )
        if any(_name(part) for part in self._parts[0]):
            raise ValueError("the program cannot be a placeholder: an argument would choose what runs")
        self._env, self._cwd, self._limits = dict(env), cwd, limits
        self._ok, self._retry, self._discard = set(ok_codes), retry_codes, set(discard_codes)

    def __str__(self) -> str:
        return shlex.join(
            "".join(text + (f"{{{name}}}" if name else "") for text, name, _, _ in parts)
            for parts in self._parts
        )

    def argv(self, values: Mapping[str, Value]) -> list[str]:
        """Return the argv for these values. Each value becomes one argument or a part of an argument, whatever the
        value contains. Raise UnfitArgumentError for a value that cannot be part of an argument."""
        for name, value in values.items():
            if isinstance(value, str) and "\0" in value:
                raise UnfitArgumentError(
                    f"{name}: holds a NUL", [(name, "holds a NUL, which no argument can")]
                )
        return [
            "".join(text + (str(values[name]) if name else "") for text, name, _, _ in parts)
            for parts in self._parts
        ]

    def run(self, ctx: Context, values: Mapping[str, Value]) -> CommandOutput:
        """Run the command for one attempt, and return its output. If it does not succeed, raise the exception that ends
        the attempt."""
        argv = self.argv(values)
        env = {"JOB_ID": ctx.job_id, "JOB_NAME": ctx.name, "JOB_ATTEMPT": str(ctx.attempt), **self._env}
        try:
            ended = run(ctx, argv, env=env, cwd=self._cwd, limits=self._limits)
        except StoppedError:
            raise Interrupted from None
        except CommandNotStartedError as exc:
            raise Retry(message=f"{argv[0]} cannot be started: {exc}") from None
        if ended.code in self._ok:
            return CommandOutput(ended.code, _text(ended.stdout), _text(ended.stderr))
        message = _message(ended)
        if ended.code in self._discard:
            raise Discard(message)
        if self._retry is None or ended.code in self._retry:
            raise Retry(message=message)
        raise Fail(message)


def function_of(name: str, command: Command) -> Callable[..., CommandOutput]:
    """Return a function for a task. The placeholders are its parameters."""
    for one in command.names:
        if one == "ctx" or keyword.iskeyword(one):
            raise ValueError(f"{{{one}}} cannot be the name of a placeholder")
    heads = "".join(f", {one}" for one in command.names)
    values = ", ".join(f"{one!r}: {one}" for one in command.names)
    made: dict[str, Any] = {"command": command}
    # Executing this source is safe: the names were checked, and `dataclasses` generates functions in the same way.
    exec(f"def run(*, ctx{heads}):\n    return command.run(ctx, {{{values}}})", made)  # noqa: S102
    function: Callable[..., CommandOutput] = made["run"]
    function.__annotations__ = {
        "ctx": Context,
        **dict.fromkeys(command.names, Value),
        "return": CommandOutput,
    }
    function.__name__ = function.__qualname__ = "run"
    function.__module__ = __name__
    function.__doc__ = f"Run the command {command}."
    return function


def _checked(one: str) -> str:
    if not isinstance(one, str):
        raise ValueError(f"an argument of a command is a text, not {one!r}")
    if "\0" in one:
        raise ValueError("an argument of a command cannot hold a NUL")
    return one


def _name(part: tuple[str, str | None, str | None, str | None]) -> str:
    _, name, spec, conversion = part
    if name is None:
        return ""
    if not name.isidentifier() or not name.isascii() or spec or conversion:
        raise ValueError(
            f"{{{name}}}: a placeholder is a plain name, such as {{day}}; write {{{{ for a brace"
        )
    return name


def _text(output: bytes) -> str:
    return output.decode(errors="replace")[-_RESULT_CHARS:]


def _message(ended: Ended) -> str:
    lines = ended.stderr.decode(errors="replace").rstrip().splitlines()[-_MESSAGE_LINES:]
    tail = "\n".join(lines)[-_MESSAGE_CHARS:]
    return f"{ended.how}: {tail}" if tail else ended.how
