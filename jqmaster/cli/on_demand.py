"""Commands that are read when they are needed: one command does not wait for the modules of all others."""

import importlib
from collections import UserDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import typer
from typer.main import get_command


@dataclass(frozen=True)
class CommandOnDemand:
    """One command. `place` is `module:attribute` of its function, or of the Typer instance of a group."""

    name: str
    place: str
    is_hidden: bool = False

    @property
    def module(self) -> str:
        return self.place.partition(":")[0]


class Commands(UserDict[str, Any]):
    """The commands of a group by name, as Typer wants them. Names are known at once; looking one up imports it."""

    def __init__(self, commands: Iterable[CommandOnDemand]) -> None:
        super().__init__({command.name: command for command in commands})

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, CommandOnDemand):
            found = self.data[name] = _build(found)
        return found


def _build(command: CommandOnDemand) -> Any:
    found = getattr(importlib.import_module(command.module), command.place.partition(":")[2])
    # Typer builds what an instance has registered. Completion is an option of the root alone.
    around = typer.Typer(add_completion=False)
    around.callback()(_nothing)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=command.name, hidden=command.is_hidden)
    else:
        around.command(command.name, hidden=command.is_hidden)(found)
    group: Any = get_command(around)
    return group.commands[command.name]


def _nothing() -> None:
    """Make the instance a group, also with a single command."""
