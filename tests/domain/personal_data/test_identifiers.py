"""Texts that identify a person, and where they occur."""

from typing import Any

import msgpack
import pytest

from jqmaster.domain.personal_data.identifiers import Identifiers, is_sealed
from tests.support.each import for_each

pytestmark = pytest.mark.req("D21")


def paths(value: Any, *texts: str) -> list[str]:
    return list(Identifiers(texts or ("jose@example.com",)).paths_in("argument", value))


@for_each(
    "text, within",
    [
        ("jose@example.com", "To: JOSE@Example.com, today"),
        ("José Peña", "JOSE\u0301 PEN\u0303A"),
        ("yamada", "ＹＡＭＡＤＡ様"),
        ("山田 太郎", "宛先: 山田 太郎"),
        ("straße 5", "STRASSE 5"),
    ],
)
def test_letter_case_accents_and_wide_forms_make_no_difference(text: str, within: str) -> None:
    assert Identifiers([text]).occur_in(within)


def test_another_text_is_not_found() -> None:
    assert not Identifiers(["jose@example.com"]).occur_in("jose@example.org")


@for_each(
    "value, found",
    [
        ("jose@example.com", ["argument"]),
        ({"a": 1, "b": {"to": ["x", "jose@example.com"]}}, ["argument.b.to[1]"]),
        ({"a.b": "jose@example.com"}, ['argument["a.b"]']),
        ({"by": {"jose@example.com": 3}}, ["argument.by"]),
        ({7: "jose@example.com"}, ["argument[7]"]),
        ({b"raw": "jose@example.com"}, ["argument"]),
        ({"raw": b"\xffjose@example.com"}, ["argument.raw"]),
        ({"of": msgpack.ExtType(5, b"jose@example.com")}, ["argument.of"]),
        ({"none": None, "no": True, "x": 1.5}, []),
    ],
)
def test_each_place_has_the_path_with_which_it_can_be_erased(value: Any, found: list[str]) -> None:
    assert paths(value) == found


def test_a_number_is_found_if_it_is_the_whole_number() -> None:
    assert paths({"customer": 70041, "yen": 700410, "is": True}, "70041") == ["argument.customer"]


def test_a_place_too_deep_for_a_path_is_that_of_what_holds_it() -> None:
    deep: Any = "jose@example.com"
    for _ in range(400):
        deep = {"x": deep}
    (path,) = paths(deep)
    assert path == "argument" + 16 * ".x"


def test_a_sealed_value_is_told_apart() -> None:
    assert is_sealed({"sealed_with": "2026b", "sealed": "AQ", "tenant": "acme"})
    assert not is_sealed({"sealed": True})
    assert not is_sealed("sealed_with sealed")
