"""Commands that make the constraints of a master equal to the constraints in a file."""

from typing import Annotated

import typer

from jqmaster.cli.console import exits, output
from jqmaster.cli.console.http import MasterSession
from jqmaster.cli.declared.constraint_calls import CONSTRAINTS, all_constraints
from jqmaster.cli.declared.constraint_files import ConstraintChange, constraints_in, differences, steps_to

FileArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        # Do not write the table names in square brackets: the help would treat them as markup.
        help="TOML or JSON file with tables named constraint, or one constraint; - reads JSON from standard input.",
    ),
]
PruneOption = Annotated[
    bool, typer.Option("--prune", help="Delete constraints that are not in FILE. Pauses stay.")
]


def plan(http: MasterSession, file: FileArgument, *, prune: PruneOption = False) -> None:
    """Show the changes that `apply` would make. Exit code 6 if there are changes."""
    wanted = constraints_in(file)
    present = all_constraints(http)
    steps = steps_to(wanted, present, prune=prune)
    _show_steps(http, steps)
    if (
        not prune
        and not http.as_json
        and (others := [step.name for step in steps_to({}, present, prune=True) if step.name not in wanted])
    ):
        output.say(f"not in {file}, kept without --prune: {', '.join(others)}")
    if not steps and not http.as_json:
        output.say("nothing to change")
    raise typer.Exit(exits.CHANGES if steps else exits.OK)


def apply(http: MasterSession, file: FileArgument, *, prune: PruneOption = False) -> None:
    """Make the constraints equal to the constraints in FILE.

    Stops if somebody else changes a constraint during the run."""
    wanted = constraints_in(file)
    steps = steps_to(wanted, all_constraints(http), prune=prune)
    for done, step in enumerate(steps):
        try:
            _apply(http, step)
        except typer.Exit:
            output.echo(
                f"  Stopped at {output.escape_controls(step.name)}: {done} of {len(steps)} changes were made; "
                "run `plan`.",
                is_error=True,
            )
            raise
        _show_steps(http, [step])
    if not steps and not http.as_json:
        output.say("nothing to change")


def _apply(http: MasterSession, step: ConstraintChange) -> None:
    headers = {"If-Match": f'"{step.etag}"'} if step.before is not None else {"If-None-Match": "*"}
    if step.after is None:
        http.call("DELETE", CONSTRAINTS.path(step.name), headers=headers)
    else:
        http.call("PUT", CONSTRAINTS.path(step.name), body=step.after, headers=headers)


def _show_steps(http: MasterSession, steps: list[ConstraintChange]) -> None:
    for step in steps:
        action = "create" if step.before is None else "delete" if step.after is None else "change"
        if http.says_json({"action": action, "name": step.name, "before": step.before, "after": step.after}):
            continue
        output.say(f"{ {'create': '+', 'delete': '-', 'change': '~'}[action] } {step.name}")
        if step.after is not None:
            for line in differences(step.before or {}, step.after):
                output.say(f"    {line}")
