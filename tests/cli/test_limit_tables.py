"""Limits of many values in a table, and shares in options."""

from pathlib import Path
from typing import Any

import pytest
import typer

from jqmaster.cli.declared.limit_tables import reserve_option, shares_option, table_in
from tests.support.each import for_each

pytestmark = pytest.mark.req("D30")


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_table_in_csv_has_the_columns_that_a_value_sets(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "limits.csv",
        '\ufeffvalue, concurrency, rate, paused, weight\nacme,80,1000/60,,10\n42,,,yes,\n"a, b",1,,no,0.5\n',
    )
    assert table_in(file) == [
        {"value": "acme", "concurrency": 80, "rate": {"limit": 1000, "period_s": 60.0}, "weight": 10.0},
        {"value": 42, "paused": True},
        {"value": "a, b", "concurrency": 1, "paused": False, "weight": 0.5},
    ]


def test_a_table_in_json_is_a_map_or_a_list(tmp_path: Path) -> None:
    as_map = written(tmp_path, "a.json", '{"acme": 80, "umbrella": {"concurrency": 20, "weight": 3}}')
    assert table_in(as_map) == [
        {"value": "acme", "concurrency": 80},
        {"value": "umbrella", "concurrency": 20, "weight": 3},
    ]
    as_list = written(tmp_path, "b.json", '[{"value": null, "weight": 2}]')
    assert table_in(as_list) == [{"value": None, "weight": 2}]


FAULTS: list[tuple[str, str, str]] = [
    ("a.csv", "tenant,concurrency\nacme,1\n", "expected a first line with the columns value"),
    ("a.csv", "value,limit\nacme,1\n", "expected a first line"),
    ("a.csv", "value\n", "has no values"),
    ("a.csv", "value,concurrency\nacme\n", "line 2: expected 2 columns"),
    ("a.csv", "value,concurrency\nacme,1,2\n", "line 2: expected 2 columns"),
    ("a.csv", "value,concurrency\nacme,many\n", "line 2: concurrency is many; expected a number"),
    ("a.csv", "value,paused\nacme,maybe\n", "line 2: paused is maybe; expected yes or no"),
    ("a.csv", "value,rate\nacme,5\n", "expected LIMIT/SECONDS"),
    ("a.json", "3", "expected a map of values to limits"),
    ("a.json", '{"acme": {"limit": 3}}', "limit is not one of"),
]


@for_each("name, text, told", FAULTS)
def test_a_table_that_cannot_be_read_is_refused_at_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, told: str
) -> None:
    with pytest.raises(typer.Exit):
        table_in(written(tmp_path, name, text))
    assert told in capsys.readouterr().err


def test_options_of_shares() -> None:
    turns = shares_option(["acme=10", "42=2.5", "*=0.5", "a=b=3"])
    assert turns == {
        "default": 0.5,
        "weights": [
            {"value": "acme", "weight": 10},
            {"value": 42, "weight": 2.5},
            {"value": "a=b", "weight": 3},
        ],
    }
    by_name = {"field": "name", "op": "glob", "value": "mail.*"}
    assert reserve_option("10:mail.*") == {"matcher": by_name, "concurrency": 10}
    matcher: dict[str, Any] = {"field": "argument.plan", "op": "eq", "value": "pro"}
    assert reserve_option('5:{"field": "argument.plan", "op": "eq", "value": "pro"}')["matcher"] == matcher
    for wrong in ("acme", "acme=x"):
        with pytest.raises(typer.Exit):
            shares_option([wrong])
    for wrong in ("10", "10:", "x:mail.*", "1:{"):
        with pytest.raises(typer.Exit):
            reserve_option(wrong)
