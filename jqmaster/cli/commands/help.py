"""`jqmaster help`: the help of a command, or a page about a topic that concerns several commands."""

from typing import Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from worker_sdk.transport.suggestions import suggestion


def _completed(context: typer.Context, incomplete: str) -> list[str]:
    from jqmaster.cli.console.topics import TOPICS

    root: Any = context.find_root()
    return [one for one in (*TOPICS, *root.command.list_commands(root)) if one.startswith(incomplete)]


def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND|TOPIC]…",
            help="A command, such as workers drain, or a topic.",
            autocompletion=_completed,
        ),
    ] = None,
) -> None:
    """Show the help of a command, or a page about a topic."""
    from jqmaster.cli.console.topics import TOPICS

    if words and len(words) == 1 and words[0] in TOPICS:
        output.echo(TOPICS[words[0]](), end="")
        return
    root = context.find_root()
    command: Any = root.command
    at: Any = root
    for word in words or []:
        if at is not root and not hasattr(command, "get_command"):
            # The word is an argument of the command, such as `retry` in `bulk retry`.
            break
        found = command.get_command(at, word) if hasattr(command, "get_command") else None
        if found is None:
            known = [*TOPICS, *command.list_commands(at)] if hasattr(command, "list_commands") else []
            exits.fail(
                exits.USAGE,
                f"no command and no topic {' '.join(words or [])}{suggestion(word, known)}\n"
                f"  Topics: {', '.join(TOPICS)}; `jqmaster help` lists the commands",
            )
        command, at = found, type(root)(found, info_name=word, parent=at)
    text = command.get_help(at)
    if text.strip():
        output.echo(text)
    if not words:
        output.echo(f"Topics of `jqmaster help TOPIC`: {', '.join(TOPICS)}")
