"""`jqmaster worker`: run the worker object of somebody's module."""

import importlib
import sys
from typing import Annotated, Any

import typer

from jqmaster.cli import exits
from jqmaster.cli.http import TokenOption


def worker(
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:OBJECT", help="For example tasks:worker, in the current directory."),
    ],
    *,
    master: Annotated[
        list[str] | None,
        typer.Option(
            "--master",
            envvar="JQMASTER_URL",
            help="Address of the master, instead of the object's; may be repeated.",
        ),
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0: a free one.")] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="JQMASTER_WORKER_URL", help="Where the master reaches this worker, if elsewhere."
        ),
    ] = None,
    pull: Annotated[
        bool | None,
        typer.Option(
            "--pull",
            envvar="JQMASTER_WORKER_PULL",
            help="Serve nothing and ask the master for jobs: for where it cannot reach this worker.",
        ),
    ] = None,
    max_jobs: Annotated[int | None, typer.Option(help="Most jobs at a time.")] = None,
    token: TokenOption = None,
) -> None:
    """Run a worker: MODULE:OBJECT is a worker_sdk.Worker."""
    found = load_worker(target)
    given = {
        "master": master or None,
        "host": host,
        "port": port,
        "url": url,
        "pull": pull,
        "max_jobs": max_jobs,
        "token": token,
    }
    for name, value in given.items():
        # What is given here goes before what the object was built with.
        if value is not None:
            setattr(found, name, value)
    found.run()


def load_worker(target: str) -> Any:
    """The object that `module:name` names. Ends the command when there is none, or none that is a Worker."""
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        exits.fail(exits.USAGE, f"{target}: expected MODULE:OBJECT")
    # As `python -m` does: the module usually lies where the command is given.
    sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # An import that fails inside the module is its author's to see in full.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        exits.fail(exits.USAGE, f"no module {error.name} here")
    for name in path.split("."):
        if not hasattr(found, name):
            exits.fail(exits.USAGE, f"{module_name} has no {path}")
        found = getattr(found, name)
    # By its name only: the packages do not import one another.
    if not isinstance(found, importlib.import_module("worker_sdk").Worker):
        exits.fail(exits.USAGE, f"{target} is not a worker_sdk.Worker")
    return found
