"""Commands that are imported on demand, so that no command waits for the modules of all other commands."""

import importlib
from collections import UserDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import typer
from typer.main import get_command

from jqmaster.cli.console.groups import CommandGroup


@dataclass(frozen=True)
class CommandOnDemand:
    """One command.

    * `place`: the `module:attribute` of its function, or of a group's Typer instance.
    * `panel`: the panel of the help that lists it.
    * `is_reading`: see `with_session`.
    """

    name: str
    place: str
    panel: str
    is_hidden: bool = False
    is_reading: bool = False

    @property
    def module(self) -> str:
        return self.place.partition(":")[0]


class Commands(UserDict[str, Any]):
    """The commands of a group by name, in the form that Typer expects. The names are known without imports.
    Looking up a name imports the command."""

    def __init__(self, commands: Iterable[CommandOnDemand]) -> None:
        super().__init__({command.name: command for command in commands})

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, CommandOnDemand):
            found = self.data[name] = _build(found)
        return found


def _build(command: CommandOnDemand) -> Any:
    found = getattr(importlib.import_module(command.module), command.place.partition(":")[2])
    # Register the command on a Typer instance, because Typer builds only commands of instances. Do not add the
    # option for completion, because it belongs to the root command.
    around = CommandGroup(add_completion=False)
    around.callback()(_nothing)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=command.name, hidden=command.is_hidden, rich_help_panel=command.panel)
    else:
        register = around.command(
            command.name,
            is_reading=command.is_reading,
            hidden=command.is_hidden,
            rich_help_panel=command.panel,
        )
        register(found)
    group: Any = get_command(around)
    return group.commands[command.name]


def _nothing() -> None:
    """Make the instance a group even if it has a single command."""
