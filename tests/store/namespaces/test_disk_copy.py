"""The copy of the registry on a master's disk."""

from pathlib import Path

import pytest

from jqmaster.domain.namespaces.namespace import Namespace
from jqmaster.domain.namespaces.quotas import Quotas
from jqmaster.errors import DamagedError
from jqmaster.store.namespaces.disk_copy import RegistryCopy
from jqmaster.store.namespaces.namespaces import StoredNamespaces

pytestmark = pytest.mark.req("D29")
URL = "redis://user:secret@store.example:6379/0"
REGISTRY = StoredNamespaces(
    7,
    {
        "shop": Namespace("shop", "shop-3", "b", "closed", "店", Quotas(argument_bytes=10), 6),
        "mail": Namespace("mail", "mail", version=7),
    },
)


def test_a_copy_is_read_as_it_was_written(tmp_path: Path) -> None:
    copy = RegistryCopy(tmp_path / "data", URL, "jq")
    assert copy.read() is None
    copy.write(StoredNamespaces(1, {}))
    copy.write(REGISTRY)
    assert copy.read() == REGISTRY
    assert [path.name for path in copy.path.parent.iterdir()] == [copy.path.name]
    assert copy.path.stat().st_mode & 0o777 == 0o600
    assert copy.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_copy_belongs_to_one_installation(tmp_path: Path) -> None:
    copy = RegistryCopy(tmp_path, URL, "jq")
    # New credentials are no other installation.
    assert RegistryCopy(tmp_path, URL.replace("secret", "new"), "jq").path == copy.path
    others = [(URL, "other"), (URL.replace("/0", "/1"), "jq"), ("unix:///run/store", "jq")]
    assert len({copy.path, *(RegistryCopy(tmp_path, url, shard).path for url, shard in others)}) == 4
    assert "secret" not in copy.path.name


def test_a_damaged_copy_is_refused(tmp_path: Path) -> None:
    copy = RegistryCopy(tmp_path, URL, "jq")
    copy.write(REGISTRY)
    whole = copy.path.read_bytes()
    for content in (
        b"",
        b"\xff\n{}",
        whole[:-1],
        whole.replace(b"shop-3", b"shop-4"),
        b"0" * 64 + whole[64:],
    ):
        copy.path.write_bytes(content)
        with pytest.raises(DamagedError, match="is damaged"):
            copy.read()
