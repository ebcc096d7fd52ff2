"""docs/config.md matches the settings."""

import pytest

from jqmaster.cli.docs import NAMES, TARGET, config_document, names_module
from jqmaster.config import Settings
from tests.contract.test_containers import ROOT
from tests.support.each import for_each


def test_the_table_of_settings_is_the_one_that_make_docs_writes() -> None:
    assert (ROOT / TARGET).read_text("utf-8") == config_document(), "run `make docs`"
    assert (ROOT / NAMES).read_text("utf-8") == names_module(), "run `make docs`"


@for_each("name", Settings.model_fields)
def test_every_setting_is_explained(name: str) -> None:
    assert (Settings.model_fields[name].description or "").endswith((".", ". "))


def test_lists_in_variables_are_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JQMASTER_TOKENS", " admin:abc\n work+push:def ")
    monkeypatch.setenv("JQMASTER_ALLOWED_HOSTS", "jobs.example.org jobs")
    settings = Settings()
    assert [token.get_secret_value() for token in settings.tokens] == ["admin:abc", "work+push:def"]
    assert settings.allowed_hosts == ["jobs.example.org", "jobs"]
