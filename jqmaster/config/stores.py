"""The stores, and the other masters that use them."""

import re
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from jqmaster.config.values import Durability, SettingsBase
from jqmaster.net.store_url import StoreUrl

# The options of each store in `Settings.stores`. They have the same names as those of the default store.
STORE_OPTIONS: Final = (
    "redis_url",
    "redis_cafile",
    "redis_certfile",
    "redis_keyfile",
    "sentinel_username",
    "sentinel_password",
)
STORE_NAME = r"[a-z][a-z0-9_-]{0,38}"
# The name of the store that `redis_url` sets.
DEFAULT_STORE: Final = "default"


class StoreSettings(BaseModel):
    """A store of namespaces besides the default store. Its options have the same names and meanings as in
    `Settings`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    redis_url: SecretStr
    redis_cafile: Path | None = None
    redis_certfile: Path | None = None
    redis_keyfile: Path | None = None
    sentinel_username: str | None = None
    sentinel_password: SecretStr | None = None

    @model_validator(mode="after")
    def _consistent(self) -> "StoreSettings":
        if fault := _store_fault(self):
            raise ValueError(fault)
        return self


class DefaultStoreSettings(SettingsBase):
    """The store that `redis_url` names, the stores of further namespaces, and the masters that share these
    stores."""

    redis_url: SecretStr | None = Field(
        None,
        description="Address of the store: `redis://[user:password@]host[:port][/db]`, `unix:///path`, "
        "`redis+sentinel://[user:password@]host[:port],…/service[/db]` or "
        "`redis+cluster://[user:password@]host[:port],…`. Use `rediss` instead of `redis` for TLS. "
        "Default: the master starts an embedded Valkey.",
    )
    redis_cafile: Path | None = Field(
        None,
        description="CA certificates (PEM) that sign the store's certificate. Default: the system's CA "
        "certificates.",
    )
    redis_certfile: Path | None = Field(
        None, description="Certificate (PEM) that this master presents to the store."
    )
    redis_keyfile: Path | None = Field(None, description="Private key (PEM) of `redis_certfile`.")
    sentinel_username: str | None = Field(
        None, description="User name for the Sentinels, if they require one."
    )
    sentinel_password: SecretStr | None = Field(
        None, description="Password for the Sentinels, if they require one."
    )
    stores: dict[str, StoreSettings] = Field(
        default_factory=dict,
        max_length=100,
        description=(
            "Further stores for namespaces. In the file, each store is a table `[stores.NAME]` with "
            "`redis_url`. It may also have `redis_cafile`, `redis_certfile`, `redis_keyfile`, "
            "`sentinel_username` and `sentinel_password`. The variables are "
            "`JQMASTER_STORES__NAME__REDIS_URL` and so on. A name begins with a letter, and has up "
            "to 39 of the characters a-z 0-9 _ -. Every master needs the same stores."
        ),
    )
    data_dir: Path = Field(
        Path("jqmaster-data"), description="Directory of the embedded Valkey: data, log, socket and lock."
    )
    shard: str = Field("jq", pattern=r"^[a-z0-9_-]{1,32}$", description="Hash tag of all keys: `{jq}:…`.")
    durability: Durability = Field(
        "fsync",
        description=(
            "Durability that a 201 guarantees, if the push requests no other level. A master "
            "refuses to start on a store that cannot provide this level (`doctor` explains why). If "
            "the store loses it later, the master accepts no new jobs."
        ),
    )
    declare_durability: Durability | None = Field(
        None,
        description=(
            "Durability of a store that hides its configuration (CONFIG is forbidden). jqmaster "
            "cannot verify this value."
        ),
    )
    quorum_replicas: int | None = Field(
        None,
        ge=1,
        le=16,
        description=(
            "Number of replicas that must confirm a write under `fsync+quorum`. Default: together "
            "with the primary, they form a majority. The majority is counted from the largest "
            "number of replicas seen since the start."
        ),
    )
    store_timeout_s: float = Field(5.0, ge=0.1, le=60, description="Timeout for each reply of the store.")
    store_connections: int = Field(
        32, ge=4, le=1024, description="Connections to the store per master process."
    )
    node_id: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description=(
            "Name of the machine. Default: the host name. If the leader fails, a master on a "
            "different machine takes over first."
        ),
    )
    advertised_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+$",
        description=(
            "URL at which other masters reach this master, such as `http://10.0.0.7:8080`. Default: "
            "the address on which it listens."
        ),
    )

    @field_validator("redis_url")
    @classmethod
    def _is_store_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            StoreUrl.parse(url.get_secret_value())
        return url

    @field_validator("stores")
    @classmethod
    def _have_names(cls, stores: dict[str, StoreSettings]) -> dict[str, StoreSettings]:
        for name in stores:
            if not re.fullmatch(STORE_NAME, name):
                raise ValueError(
                    f"{name[:100]}: a store's name begins with a letter, and has up to 39 of the characters a-z 0-9 _ -"
                )
            if name == DEFAULT_STORE:
                raise ValueError(f"{DEFAULT_STORE} is the store that redis_url sets; choose another name")
        return stores

    @model_validator(mode="after")
    def _has_whole_store(self) -> "DefaultStoreSettings":
        if fault := _store_fault(self):
            raise ValueError(fault)
        return self


def _store_fault(store: DefaultStoreSettings | StoreSettings) -> str | None:
    """Return the fault in the options of a store, or None if they are valid."""
    if (store.redis_certfile is None) != (store.redis_keyfile is None):
        return "set both redis_certfile and redis_keyfile, or neither"
    try:
        url = StoreUrl.parse(store.redis_url.get_secret_value()) if store.redis_url else None
    except ValueError as error:
        return f"redis_url: {error}"
    if (store.redis_cafile or store.redis_certfile) and not (url and url.is_tls):
        return "redis_cafile and redis_certfile require a redis_url that begins with rediss"
    if (store.sentinel_username or store.sentinel_password) and not (url and url.topology == "sentinel"):
        return "sentinel_username and sentinel_password require a redis+sentinel redis_url"
    return None
