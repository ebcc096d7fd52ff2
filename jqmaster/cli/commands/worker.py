"""`jqmaster worker`: run the worker object of a module. `python -m worker_sdk worker` does the same without the
server."""

import inspect
from typing import Annotated, Any, Literal

import typer

from jqmaster.cli.console import exits
from worker_sdk.command_line.options import (
    DEFAULTS,
    OPTIONS,
    TARGET_HELP,
    TARGET_METAVAR,
    WORKER_HELP,
    WorkerOption,
)


def worker(target: str | None = None, **options: Any) -> None:
    from worker_sdk.command_line.worker import run_worker

    with exits.told():
        code = run_worker({**DEFAULTS, "target": target, **options}, module="jqmaster")
    if code:
        raise typer.Exit(code)


def _parameter(option: WorkerOption) -> inspect.Parameter:
    """Return a function parameter. Typer makes the option from it."""
    kind: Any = Literal[option.choices] if option.choices else option.kind
    if option.is_list:
        kind = list[kind]
    told = typer.Option(
        option.flag,
        help=option.help,
        metavar=option.metavar,
        envvar=option.variable,
        min=option.least,
        max=option.most,
        rich_help_panel=option.panel,
    )
    annotation: Any = Annotated[kind if option.default is not None else kind | None, told]
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=annotation
    )


_TARGET = inspect.Parameter(
    "target",
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    default=None,
    annotation=Annotated[str | None, typer.Argument(metavar=TARGET_METAVAR, help=TARGET_HELP)],
)
worker.__doc__ = WORKER_HELP
worker.__signature__ = inspect.Signature([_TARGET, *map(_parameter, OPTIONS)])  # type: ignore[attr-defined]
worker.__annotations__ = {name: one.annotation for name, one in inspect.signature(worker).parameters.items()}
