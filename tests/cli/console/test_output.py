"""Tables for people: what they copy stays whole, whatever the width of the terminal."""

import pytest

from jqmaster.cli.console.output import show_table

ID = "01a224b5-6f21-772c-95ea-3fd686462ab0"


def test_a_narrow_terminal_folds_prose_and_keeps_ids_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("COLUMNS", "70"), ("FORCE_COLOR", "1"), ("TERM", "dumb")):
        monkeypatch.setenv(name, value)
    show_table(
        ("ID", "MESSAGE", "AT"), [(ID, "no such " * 12, "2026-11-29T00:30:02Z"), (ID[:-1] + "1", None, "")]
    )
    lines = [line for line in capsys.readouterr().out.splitlines() if "ID" not in line]
    assert sum(ID in line for line in lines) == 1
    assert sum("2026-11-29T00:30:02Z" in line for line in lines) == 1
    assert sum(line.count(word) for line in lines for word in ("no", "such")) == 24
    assert lines[-1] == ID[:-1] + "1"
    assert all(line == line.rstrip() for line in lines)


def test_a_pipe_gets_one_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("ID", "MESSAGE"), [(ID, "no such " * 30), ("[red]", 5)], title="Failures")
    assert capsys.readouterr().out.splitlines() == [
        "Failures",
        f"{'ID':<36}  MESSAGE",
        f"{ID}  {('no such ' * 30).rstrip()}",
        f"{'[red]':<36}  5",
    ]
    show_table(("ID", "MESSAGE"), [])
    assert capsys.readouterr().out == "ID  MESSAGE\n"
