"""Values that a command gets in its arguments."""

import pytest
import typer

from jqmaster.cli.console import exits
from jqmaster.cli.console.documents import pairs_of


def test_pairs_are_told_apart_at_the_first_sign() -> None:
    assert pairs_of(["a=1", "trace=b=c", "empty="], "--header") == {"a": "1", "trace": "b=c", "empty": ""}


@pytest.mark.parametrize("text", ["gpu", "=x", ""])
def test_the_option_of_a_faulty_pair_is_named(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        pairs_of(["a=1", text], "--require")
    assert ended.value.exit_code == exits.USAGE
    assert f"--require {text}: expected NAME=VALUE" in capsys.readouterr().err
