"""The help of commands: Typer's text with examples at the end."""

from collections.abc import Iterable
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

# Names that these commands had until release 0.1.
_FORMER_NAMES: Final = {"token": "tokens", "user": "users"}


class CommandWithExamples(TyperCommand):
    """A command with examples at the end of its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        show_no_type_of_flags(self.get_params(ctx))
        super().format_help(ctx, formatter)
        _add_examples(_path_of(ctx), formatter)


class GroupWithExamples(TyperGroup):
    """A group with examples of its command `list` at the end of its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        show_no_type_of_flags(self.get_params(ctx))
        super().format_help(ctx, formatter)
        _add_examples(f"{_path_of(ctx)} list", formatter)


def show_no_type_of_flags(parameters: Iterable[Any]) -> None:
    """Remove the type after flags from the help, because flags take no value."""
    for one in parameters:
        if getattr(one, "is_flag", False) and one.metavar is None:
            one.metavar = ""


def _path_of(ctx: Any) -> str:
    """Return the words of a command after `jqmaster`."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, _FORMER_NAMES.get(ctx.info_name, ctx.info_name))
        ctx = ctx.parent
    return " ".join(words)


def _add_examples(path: str, formatter: Any) -> None:
    from jqmaster.cli.console.examples import EXAMPLES

    if lines := EXAMPLES.get(path):
        # Write the examples without Typer's markup. The markup would interpret brackets and wrap lines that
        # people copy.
        formatter.write("".join(["Examples:\n", *(f"  {line}\n" for line in lines)]))
