"""Commands that print the version and the OpenAPI documents."""

from enum import StrEnum
from importlib.resources import files
from typing import Annotated

import typer

from jqmaster.cli.console import exits, output


class Document(StrEnum):
    MASTER = "master"
    WORKER = "worker"


_FILES = {Document.MASTER: "jqmaster.yaml", Document.WORKER: "worker.yaml"}


def openapi(
    document: Annotated[
        Document, typer.Argument(help="API to print: the master's API, or the API that a worker serves.")
    ] = Document.MASTER,
) -> None:
    """Print an OpenAPI document (YAML)."""
    package = files("jqmaster")
    # In a wheel, the documents are inside the package. In a source tree, they are beside the package.
    for directory in (package.joinpath("openapi"), package.joinpath("..", "openapi")):
        file = directory.joinpath(_FILES[document])
        if file.is_file():
            output.echo(file.read_text("utf-8"), end="")
            return
    exits.fail(exits.NOT_FOUND, f"{_FILES[document]} is not part of this installation")


def version() -> None:
    """Print the version."""
    from jqmaster import __version__

    output.echo(__version__)
