"""The stores for callers' identities."""

import pytest

from jqmaster.store.identity.credentials import CredentialStore
from jqmaster.store.identity.logins import LoginStore
from jqmaster.store.identity.sessions import SessionStore
from tests.support.store import StoreWorld


@pytest.fixture
def credentials(world: StoreWorld) -> CredentialStore:
    return CredentialStore(world.shard)


@pytest.fixture
def sessions(world: StoreWorld) -> SessionStore:
    return SessionStore(world.shard)


@pytest.fixture
def logins(world: StoreWorld) -> LoginStore:
    return LoginStore(world.shard)
