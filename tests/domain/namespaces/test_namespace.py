"""Names, places and quotas of namespaces, and what is refused."""

from dataclasses import replace

import pytest

from jqmaster.config import Settings
from jqmaster.domain.namespaces.namespace import (
    RESERVED_NAMES,
    Namespace,
    NamespaceError,
    check_namespace,
    default_namespace,
)
from jqmaster.domain.namespaces.quotas import MOST, QUOTAS, Quotas, quotas_of
from tests.support.each import for_each

pytestmark = pytest.mark.req("D29")
SHOP = Namespace("shop", "shop", "b", title="The shop", quotas=Quotas(waiting_jobs=1))


def test_a_namespace_is_valid() -> None:
    for name in ("ab", "a1", "shop-2", "x" * 39, "default"):
        check_namespace(replace(SHOP, name=name))
    # Every value of the setting `shard`, so that an installation can be adopted.
    for tag in ("jq", "7", "_a-b_", "x" * 64):
        check_namespace(replace(SHOP, tag=tag))


def test_the_etag_of_a_namespace_changes_with_its_version() -> None:
    assert replace(SHOP, version=7).etag == "7"


def test_the_default_namespace_is_that_of_the_installation() -> None:
    assert default_namespace("jq") == Namespace("default", "jq", "default", "open")
    assert default_namespace("jq").is_default
    assert not SHOP.is_default


@for_each(
    ("changes", "loc", "text"),
    [
        ({"name": "a"}, ("name",), "2 to 39"),
        ({"name": "x" * 40}, ("name",), "2 to 39"),
        ({"name": "1st"}, ("name",), "begin with a letter"),
        ({"name": "Shop"}, ("name",), "such as shop$"),
        ({"name": "shop\n"}, ("name",), "2 to 39"),
        ({"name": "sh_op"}, ("name",), "a-z 0-9 -"),
        *(({"name": name}, ("name",), "must not be one of all, api") for name in sorted(RESERVED_NAMES)),
        ({"tag": ""}, ("tag",), "1 to 64"),
        ({"tag": "{a}"}, ("tag",), "1 to 64"),
        ({"tag": "x" * 65}, ("tag",), "1 to 64"),
        ({"store": "B"}, ("store",), "a-z 0-9"),
        ({"title": "x" * 101}, ("title",), "at most 100"),
        ({"title": "a\nb"}, ("title",), "printable"),
        ({"quotas": Quotas(streams=0)}, ("quotas", "streams"), "at least 1"),
    ],
)
def test_a_faulty_part_is_named(changes: dict[str, object], loc: tuple[str, ...], text: str) -> None:
    with pytest.raises(NamespaceError, match=text) as refused:
        check_namespace(replace(SHOP, **changes))  # type: ignore[arg-type]
    assert refused.value.loc == loc


def test_every_quota_has_a_largest_value_and_a_default_in_the_settings() -> None:
    assert set(MOST) == set(QUOTAS)
    given = [f"{quota}={n}" for n, quota in enumerate(QUOTAS, 1)]
    settings = Settings(namespace_quotas=given)
    assert quotas_of(settings.namespace_quotas) == Quotas(*range(1, 7))
    own = Quotas(workers=40)
    assert own.or_else(quotas_of(given)) == replace(quotas_of(given), workers=40)
