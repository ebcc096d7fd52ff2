"""Settings of a master: one frozen model, from arguments, `JQMASTER_…` variables or a TOML file.

The table in docs/config.md is generated from this model (`make docs`).
"""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from jqmaster.net.store_url import StoreUrl

KIB = 1024
MIB = 1024 * KIB
DAY_S = 86_400
MOST_KEPT_S = 3650 * DAY_S
MOST_KEPT_JOBS = 100_000_000

_REDACT_PATH = re.compile(r"(argument|result|error|headers)(\.[^.\s]{1,200}){1,16}")

Durability = Literal["besteffort", "fsync", "fsync+quorum"]


def _words(value: object) -> object:
    """Lists in variables are words, which a shell and a compose file can write without quotes inside quotes."""
    return value.split() if isinstance(value, str) else value


class Settings(BaseSettings):
    """Precedence: arguments, environment (`JQMASTER_PORT=9000`), the TOML file named by `JQMASTER_CONFIG`, defaults."""

    model_config = SettingsConfigDict(
        env_prefix="JQMASTER_", frozen=True, extra="forbid", validate_default=True, env_ignore_empty=True
    )

    # --- where it listens and who may call
    host: str = Field("127.0.0.1", description="Address to listen on. Anything but loopback demands tokens.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 lets the system choose.")
    processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Master processes of one `serve`, which share the port: each a master of its own, with all limits for itself.",
    )
    allowed_hosts: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Host names that requests may carry, besides loopback names and `host`; empty and with tokens configured: any.",
    )
    tokens: Annotated[list[SecretStr], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Bearer tokens as `scope+scope:token` (scopes push, work, read, operate, admin); kept only as SHA-256.",
    )
    tokens_file: Path | None = Field(
        None,
        description="File with one `scope+scope:token` or `scope+scope:sha256=HEX` a line; `#` starts a comment.",
    )
    tls_certfile: Path | None = Field(
        None, description="PEM certificate chain; with `tls_keyfile` the master serves HTTPS."
    )
    tls_keyfile: Path | None = Field(None, description="PEM private key of `tls_certfile`.")
    tls_client_cafile: Path | None = Field(
        None,
        description="PEM certificates of authorities: only clients are served that show a certificate of theirs (mutual TLS).",
    )
    calls_cafile: Path | None = Field(
        None,
        description="PEM certificates of who vouches for workers that serve HTTPS; the system's, if none.",
    )
    calls_certfile: Path | None = Field(
        None, description="PEM certificate that this master shows to workers and other masters."
    )
    calls_keyfile: Path | None = Field(None, description="PEM private key of `calls_certfile`.")

    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+(/[A-Za-z0-9._~/-]*)?$",
        description="Where browsers reach this master through a proxy, such as `https://jobs.example.org/queue`. Then loopback "
        "demands credentials too: whoever the proxy lets in would come from there.",
    )
    trusted_proxies: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Networks of the reverse proxies in front, such as `127.0.0.1/32 10.0.0.0/24`. Limits for each address count the "
        "address that they name in `X-Forwarded-For`; nothing else believes it.",
    )
    hsts_s: int = Field(
        180 * DAY_S,
        ge=0,
        le=2 * 365 * DAY_S,
        description="With TLS: how long browsers shall use nothing but HTTPS for this host name, on any port (`Strict-Transport-Security`). "
        "0: the header is not sent.",
    )
    session_life_s: float = Field(
        DAY_S / 2, ge=60, le=30 * DAY_S, description="A login ends after this long, whatever happens."
    )
    session_idle_s: float = Field(
        3600, ge=30, le=30 * DAY_S, description="A login that is not used for this long ends."
    )
    login_attempts_per_minute: int = Field(
        10,
        ge=1,
        le=1000,
        description="Failed logins of one user within a minute; three times as many of one address. More get 429, but for browsers "
        "on which the user has logged in before: they are counted apart.",
    )
    failed_registrations_per_minute: int = Field(
        60,
        ge=1,
        le=100_000,
        description="Registrations of workers, by one caller (token and address) within a minute, whose address was not proven. More "
        "get 429.",
    )
    viewers_see_content: bool = Field(
        False,
        description="Whether callers with scope read alone (role viewer) see what jobs carry: arguments, headers, results, values and texts "
        "of errors, values of constraints' keys.",
    )

    audit_export: str | None = Field(
        None,
        min_length=1,
        description="Where the audit log goes as it grows, as lines of JSON: `stdout`, or a file that may be rotated. The "
        "leading master writes: give it to all. None: nowhere.",
    )

    # --- traces
    traces_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^\s?#]+$",
        description="Where spans go: an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; "
        "needs the extra `tracing`. None: no traces.",
    )

    redact_paths: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        max_length=100,
        description="Parts of what jobs carry that no view shows, to nobody: `argument.password`, `result.*.token`, "
        "`argument.**.pin`, `error.message`, `headers.authorization`. Workers and whoever fetches a result get all.",
    )

    # --- the store
    redis_url: SecretStr | None = Field(
        None,
        description="Address of the store: `redis://[user:password@]host[:port][/db]`, `unix:///path`, "
        "`redis+sentinel://[user:password@]host[:port],…/service[/db]`, `redis+cluster://[user:password@]host[:port],…`; "
        "with `rediss` for `redis` it is spoken to by TLS. None: an embedded Valkey is started.",
    )
    redis_cafile: Path | None = Field(
        None, description="PEM certificates of who vouches for the store (TLS); the system's, if none."
    )
    redis_certfile: Path | None = Field(
        None, description="PEM certificate that this master shows to the store (TLS)."
    )
    redis_keyfile: Path | None = Field(None, description="PEM private key of `redis_certfile`.")
    sentinel_username: str | None = Field(None, description="User at the Sentinels, if they ask for one.")
    sentinel_password: SecretStr | None = Field(
        None, description="Password at the Sentinels, if they ask for one."
    )
    data_dir: Path = Field(
        Path("jqmaster-data"), description="Directory of the embedded Valkey: data, log, socket, lock."
    )
    shard: str = Field("jq", pattern=r"^[a-z0-9_-]{1,32}$", description="Hash tag of all keys: `{jq}:…`.")
    durability: Durability = Field(
        "fsync",
        description="What a 201 promises, unless a push asks for another level; a store that cannot give it is refused at "
        "start (`doctor` tells why), and takes no new jobs when it loses it later.",
    )
    declare_durability: Durability | None = Field(
        None,
        description="What a store gives that does not show its configuration (CONFIG forbidden); you vouch for it.",
    )
    quorum_replicas: int | None = Field(
        None,
        ge=1,
        le=16,
        description="Replicas that must confirm a write under `fsync+quorum`; if none, as many as make a majority together "
        "with the primary, of the most replicas that were seen since the start.",
    )
    store_timeout_s: float = Field(5.0, gt=0, le=60, description="Longest wait for one answer of the store.")
    store_connections: int = Field(
        32, ge=4, le=1024, description="Connections to the store per master process."
    )

    # --- the other masters
    node_id: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Name of the machine; the host name if none. Another node than the leader's is first to take over.",
    )
    advertised_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+$",
        description="Where other masters reach this one, such as `http://10.0.0.7:8080`; where it listens, if none.",
    )

    # --- limits of a request
    max_body_bytes: int = Field(16 * MIB, ge=KIB, le=256 * MIB, description="Largest request body.")
    max_argument_bytes: int = Field(
        256 * KIB, ge=KIB, le=16 * MIB, description="Largest encoded argument of a job."
    )
    max_result_bytes: int = Field(
        MIB, ge=KIB, le=16 * MIB, description="Largest encoded result or error of a job."
    )
    max_nesting: int = Field(32, ge=4, le=256, description="Deepest nesting of a value.")
    max_argument_nodes: int = Field(
        20_000, ge=100, le=1_000_000, description="Most values inside one argument or result."
    )
    max_bulk_jobs: int = Field(10_000, ge=1, le=10_000, description="Most jobs in one bulk enqueue.")
    max_header_bytes: int = Field(16 * KIB, ge=KIB, le=256 * KIB, description="Largest request head.")
    max_header_count: int = Field(64, ge=8, le=1000, description="Most header lines of a request.")
    max_connections: int = Field(
        4096,
        ge=16,
        le=1_000_000,
        description="Connections served at once, at most half of the file descriptors allowed; further ones get 503.",
    )
    unproven_share: float = Field(
        0.5,
        ge=0.01,
        le=1,
        description="Share of `max_connections` for connections on which no valid credential was shown yet; beyond it the "
        "longest idle one of them is closed.",
    )
    address_share: float = Field(
        0.9,
        ge=0.01,
        le=1,
        description="Share of `max_connections` that one address may hold (an IPv6 /64 is one; workers do not count); further ones get 503. "
        "Addresses in `trusted_proxies` have no such limit.",
    )
    max_streams: int = Field(
        200,
        ge=1,
        le=10_000,
        description="Dashboards that may look at one process at once; further ones get 503.",
    )
    previews_per_minute: int = Field(
        60,
        ge=1,
        le=100_000,
        description="Previews of constraints that one caller gets within a minute; more get 429.",
    )
    max_intake_bytes: int = Field(
        64 * MIB,
        ge=MIB,
        le=64 * 1024 * MIB,
        description="Bodies of pushes that a master process holds at once; further pushes get 503 with Retry-After.",
    )
    receipt_deadline_s: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="A request must arrive within this, plus 1 s per 64 KiB of body; else 408.",
    )
    write_deadline_s: float = Field(
        30.0, gt=0, le=3600, description="A client that reads nothing for this long is cut off."
    )

    # --- leases and dispatch
    lease_ms: int = Field(15_000, ge=500, le=600_000, description="Life of a lease; a heartbeat renews it.")
    offer_ms: int = Field(
        5_000, ge=100, le=60_000, description="Time in which a worker may accept a pushed job."
    )
    heartbeat_interval_s: float = Field(1.0, ge=0.05, le=60, description="How often a worker reports.")
    worker_stale_s: float = Field(
        5.0, ge=0.1, le=600, description="A worker silent for longer gets no new jobs."
    )
    ping_timeout_s: float = Field(
        0.5, gt=0, le=10, description="Longest wait for the answer to a ping; only silent workers are pinged."
    )
    max_missed_pings: int = Field(
        3,
        ge=1,
        le=100,
        description="A silent worker that misses so many pings in a row, one a second, is detached.",
    )
    crowd_share: float = Field(
        0.3,
        ge=0,
        le=1,
        description="When more than this share of the fresh workers falls silent within `worker_stale_s`, nothing is "
        "reclaimed or detached for a grace time.",
    )
    crowd_least: int = Field(
        3, ge=1, le=1_000_000, description="Fewer silent workers than this are never a crowd."
    )
    worker_forget_s: float = Field(
        300.0, ge=1, le=30 * DAY_S, description="A worker silent for longer and without jobs is forgotten."
    )
    timeout_grace_s: float = Field(
        5.0, ge=0, le=600, description="The master ends a run this long after its timeout."
    )
    push_timeout_s: float = Field(
        3.0, gt=0, le=60, description="Longest wait for a worker's answer to a push."
    )
    max_push_jobs: int = Field(200, ge=1, le=500, description="Most jobs in one push to a worker.")
    max_losses: int = Field(
        3, ge=1, le=100, description="The n-th lost worker under one job ends it (cause `lost`)."
    )
    alone_wait_s: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="Before its last try a job that workers were lost under waits up to this long for a worker to itself; "
        "then it runs beside others.",
    )
    leader_ttl_s: float = Field(
        5.0, ge=0.5, le=60, description="Life of the leader's lock; renewed three times as often."
    )
    allowed_worker_networks: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=lambda: [
            "127.0.0.0/8",
            "::1/128",
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "fc00::/7",
        ],
        description="Networks in which workers may live. Link-local, multicast, metadata and the store never.",
    )

    # --- how long things are kept
    retention_succeeded_s: float = Field(
        3600, ge=0, le=MOST_KEPT_S, description="Succeeded, canceled and skipped jobs stay this long."
    )
    retention_succeeded_max: int = Field(
        100_000, ge=0, le=MOST_KEPT_JOBS, description="Most jobs kept in each of these states."
    )
    retention_failed_s: float = Field(
        30 * DAY_S, ge=0, le=MOST_KEPT_S, description="Failed jobs stay this long."
    )
    retention_failed_max: int = Field(
        100_000, ge=0, le=MOST_KEPT_JOBS, description="Most failed jobs that are kept; the oldest go first."
    )
    result_ttl_s: float = Field(
        DAY_S, ge=0, le=MOST_KEPT_S, description="A result that nobody fetches is kept this long."
    )
    result_grace_s: float = Field(
        60, ge=0, le=MOST_KEPT_S, description="A fetched result can be asked for again this long."
    )

    # --- logs
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least level that is logged."
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="Log lines for people, or one JSON object a line."
    )

    @field_validator("redact_paths")
    @classmethod
    def _are_paths(cls, paths: list[str]) -> list[str]:
        for path in paths:
            if not _REDACT_PATH.fullmatch(path) or path.endswith(".**") or path.count("**") > 1:
                raise ValueError(
                    f"{path[:100]}: expected argument, result, error or headers, then keys, each after a point; ** once, "
                    "and not at the end"
                )
        return paths

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, networks: list[str]) -> list[str]:
        for text in networks:
            ipaddress.ip_network(text)
        return networks

    @field_validator("redis_url")
    @classmethod
    def _is_store_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            StoreUrl.parse(url.get_secret_value())
        return url

    @model_validator(mode="after")
    def _consistent(self) -> "Settings":
        for rule in RULES:
            if not rule.holds(self):
                raise ValueError(rule.text)
        if (self.tls_certfile is None) != (self.tls_keyfile is None):
            raise ValueError("tls_certfile and tls_keyfile go together")
        if self.tls_client_cafile and not self.tls_certfile:
            raise ValueError("tls_client_cafile needs tls_certfile")
        if (self.calls_certfile is None) != (self.calls_keyfile is None):
            raise ValueError("calls_certfile and calls_keyfile go together")
        if (self.redis_certfile is None) != (self.redis_keyfile is None):
            raise ValueError("redis_certfile and redis_keyfile go together")
        store = StoreUrl.parse(self.redis_url.get_secret_value()) if self.redis_url else None
        if (self.redis_cafile or self.redis_certfile) and not (store and store.is_tls):
            raise ValueError("redis_cafile and redis_certfile need a redis_url that begins with rediss")
        if (self.sentinel_username or self.sentinel_password) and not (
            store and store.topology == "sentinel"
        ):
            raise ValueError("sentinel_username and sentinel_password need a redis_url of Sentinels")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        import os

        sources: list[PydanticBaseSettingsSource] = [init_settings, env_settings]
        if path := os.environ.get("JQMASTER_CONFIG"):
            sources.append(TomlConfigSettingsSource(settings_cls, toml_file=Path(path)))
        return tuple(sources)


class Rule(NamedTuple):
    """What must hold between settings; `fields` are those that it compares."""

    fields: tuple[str, ...]
    holds: Callable[[Settings], bool]
    text: str


# Of those that change at run time too, so that a change can name the fields that do not fit.
RULES: Final = (
    Rule(
        ("offer_ms", "lease_ms"),
        lambda s: s.offer_ms * 2 <= s.lease_ms,
        "offer_ms must be at most half of lease_ms: a late acceptance must still find time to renew",
    ),
    Rule(
        ("lease_ms", "heartbeat_interval_s"),
        lambda s: s.heartbeat_interval_s * 3000 <= s.lease_ms,
        "lease_ms must be at least three heartbeat intervals",
    ),
    Rule(
        ("worker_stale_s", "heartbeat_interval_s"),
        lambda s: s.heartbeat_interval_s < s.worker_stale_s,
        "worker_stale_s must be longer than heartbeat_interval_s",
    ),
)
