"""Exports and imports that the store interrupts."""

import pytest
import typer

from jqmaster.cli.commands import transfer
from jqmaster.cli.console import exits
from jqmaster.errors import OutcomeUnknownError


@pytest.mark.req("D31")
def test_an_import_that_the_store_interrupted_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    async def bring_in() -> None:
        raise OutcomeUnknownError("the store did not answer")

    with pytest.raises(typer.Exit) as ended:
        transfer._run(bring_in(), if_interrupted=transfer._GO_ON)
    assert ended.value.exit_code == exits.UNREACHABLE
    assert (
        "the store did not answer\nThe import was interrupted. Run the command again"
        in capsys.readouterr().err
    )
