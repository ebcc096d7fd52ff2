"""Further stores are configured by a table in the file or by variables, and are checked like the default one."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from jqmaster.cli.console import logs
from jqmaster.cli.console.settings import plain_settings
from jqmaster.config import Settings
from jqmaster.service.operations.settings_catalog import CATALOG
from tests.support.each import for_each
from worker_sdk.transport.variables import unknown_variables

FILE = """
redis_url = "redis://a:6379"

[stores.b]
redis_url = "rediss://jq:word-of-b@b:6380"
redis_cafile = "/etc/jqmaster/b.pem"

[stores.c_2]
redis_url = "redis+sentinel://c:26379/main"
sentinel_password = "word-of-c"
"""


@pytest.mark.req("D29")
def test_stores_are_read_from_the_file_and_from_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "jqmaster.toml"
    file.write_text(FILE)
    monkeypatch.setenv("JQMASTER_CONFIG", str(file))
    monkeypatch.setenv("JQMASTER_STORES__D__REDIS_URL", "redis://d:6379")
    monkeypatch.setenv("JQMASTER_STORES__B__REDIS_URL", "rediss://elsewhere:6380")
    settings = Settings()
    assert {name: one.redis_url.get_secret_value() for name, one in settings.stores.items()} == {
        "b": "rediss://elsewhere:6380",
        "c_2": "redis+sentinel://c:26379/main",
        "d": "redis://d:6379",
    }
    assert settings.stores["b"].redis_cafile == Path("/etc/jqmaster/b.pem")
    found = unknown_variables({"JQMASTER_STORES__D__REDIS_URL": "", "JQMASTER_STORES__D__REDIS_ULR": ""})
    assert {*found.misspelt, *found.others} == {"JQMASTER_STORES__D__REDIS_ULR"}


def test_the_settings_at_a_store_have_its_options_alone() -> None:
    settings = Settings(
        redis_url="rediss://a:6379",
        redis_cafile="/a.pem",
        shard="jq",
        stores={"b": {"redis_url": "redis://b:6379"}},
    )
    at_b = settings.at_store("b", "shop")
    assert at_b.redis_url
    assert (at_b.redis_url.get_secret_value(), at_b.redis_cafile, at_b.shard) == (
        "redis://b:6379",
        None,
        "shop",
    )
    assert settings.at_store("default", "shop").redis_cafile == Path("/a.pem")
    with pytest.raises(KeyError):
        settings.at_store("c", "shop")


FAULTS: dict[str, tuple[Any, str]] = {
    "no address": ({"b": {}}, "redis_url"),
    "a malformed address": ({"b": {"redis_url": "http://b"}}, "redis_url"),
    "an unknown option": ({"b": {"redis_url": "redis://b", "durability": "fsync"}}, "durability"),
    "the name of the default store": ({"default": {"redis_url": "redis://b"}}, "choose another name"),
    "a name in capitals": ({"B": {"redis_url": "redis://b"}}, "a store's name begins with a letter"),
    "a CA without TLS": ({"b": {"redis_url": "redis://b", "redis_cafile": "/b.pem"}}, "begins with rediss"),
    "half a certificate": ({"b": {"redis_url": "rediss://b", "redis_certfile": "/b.pem"}}, "set both"),
    "a password for no Sentinel": (
        {"b": {"redis_url": "redis://b", "sentinel_password": "word"}},
        "require a redis\\+sentinel",
    ),
}


@for_each("case", FAULTS)
def test_a_faulty_store_is_refused_with_its_rule(case: str) -> None:
    stores, rule = FAULTS[case]
    with pytest.raises(ValidationError, match=rule):
        Settings(stores=stores)


def test_the_credentials_of_stores_are_secrets() -> None:
    settings = Settings(
        stores={
            "b": {"redis_url": "redis://jq:word-of-b@b:6379"},
            "c": {"redis_url": "redis+sentinel://c:26379/main", "sentinel_password": "word-of-c"},
        }
    )
    assert {"word-of-b", "word-of-c"} <= set(logs.secrets_of(settings))
    assert "word-of" not in repr(settings)
    assert CATALOG["stores"].is_secret
    # A child process of `serve --processes` gets them as JSON.
    plain = json.loads(json.dumps(plain_settings(settings)))
    assert Settings(**plain).stores == settings.stores
