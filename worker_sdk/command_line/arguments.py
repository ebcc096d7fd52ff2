"""Read the arguments of `python -m worker_sdk`, with the standard library alone."""

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from worker_sdk.command_line.ends import USAGE, CommandError
from worker_sdk.command_line.options import OPTIONS, TARGET_HELP, WORKER_HELP, WorkerOption
from worker_sdk.transport.release import VERSION

PROGRAM: Final = "python -m worker_sdk"
_TRUE: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
_FALSE: Final = frozenset({"0", "false", "f", "no", "n", "off", ""})


def read_arguments(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options of the worker by name. End the process, as argparse does, for `--help` and for arguments that
    are not valid. Raise CommandError for a variable that is not valid."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Run workers of a jqmaster.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=VERSION)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    worker = commands.add_parser("worker", help=WORKER_HELP, description=WORKER_HELP, allow_abbrev=False)
    worker.add_argument("target", metavar="MODULE:OBJECT", nargs="?", help=TARGET_HELP)
    groups: dict[str | None, Any] = {None: worker}
    for option in OPTIONS:
        if option.panel not in groups:
            groups[option.panel] = worker.add_argument_group(option.panel)
        _add(groups[option.panel], option)
    namespace, unknown = parser.parse_known_args(arguments)
    if unknown:
        worker.error(_unrecognized(unknown))
    found = vars(namespace)
    for option in OPTIONS:
        if found[option.name] is None:
            found[option.name] = _from_variable(option)
    return found


def _unrecognized(unknown: Sequence[str]) -> str:
    from worker_sdk.transport.option_names import meant_option

    known = {option.flag.lstrip("-").replace("-", "_"): option.flag for option in OPTIONS}
    meant = known.get(meant_option(unknown[0].partition("=")[0], known))
    return f"unrecognized arguments: {' '.join(unknown)}" + (f"; did you mean {meant}?" if meant else "")


def _add(group: Any, option: WorkerOption) -> None:
    text = option.help if option.variable is None else f"{option.help} Variable: {option.variable}."
    common: dict[str, Any] = {"dest": option.name, "default": None, "help": text.replace("%", "%%")}
    if option.kind is bool:
        group.add_argument(option.flag, action="store_true", **common)
    else:
        group.add_argument(
            option.flag,
            action="append" if option.is_list else "store",
            type=_value_of(option),
            metavar=option.metavar or ("|".join(option.choices) if option.choices else option.name.upper()),
            **common,
        )


def _from_variable(option: WorkerOption) -> Any:
    """Return the value of the option's variable, or else its default."""
    text = os.environ.get(option.variable, "") if option.variable else ""
    if not text:
        return option.default
    try:
        if option.kind is bool:
            if text.strip().lower() not in _TRUE | _FALSE:
                raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
            return text.strip().lower() in _TRUE
        convert = _value_of(option)
        return [convert(word) for word in text.split()] if option.is_list else convert(text)
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise CommandError(USAGE, f"{option.variable}: {error}") from None


def _value_of(option: WorkerOption) -> Callable[[str], Any]:
    """Return the function that converts a text to the option's value. It raises ArgumentTypeError for an invalid
    text."""

    def convert(text: str) -> Any:
        if option.choices and text not in option.choices:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(option.choices)}")
        try:
            value = option.kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        if option.least is not None and value < option.least:
            raise argparse.ArgumentTypeError(f"{text} is less than {option.least:g}")
        if option.most is not None and value > option.most:
            raise argparse.ArgumentTypeError(f"{text} is more than {option.most:g}")
        return value

    return convert
