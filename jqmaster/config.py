"""Settings of a master: one frozen model, read from arguments, `JQMASTER_…` variables or a TOML file.

The table in docs/config.md is generated from this model (`make docs`).
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from jqmaster.net.link_template import LinkTemplate
from jqmaster.net.smtp_url import SmtpUrl
from jqmaster.net.store_url import StoreUrl
from jqmaster.net.webhook_secret import secret_bytes

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
DAY_S = 86_400
# The part of a body that is reserved for everything but the argument or payload. A push also carries its name, headers
# and options, and an event also carries its attributes.
ENVELOPE_BYTES: Final = 64 * KIB
_PROXY_URL = r"^(https?:/)?/[^/\\\s][^\s]*$"
_HEADER = r"^[A-Za-z0-9-]{1,64}$"
# Headers that cannot carry a user's name, because they have another meaning, or because any caller may send them.
_OTHER_HEADERS = {
    "authorization",
    "cookie",
    "host",
    "origin",
    "x-forwarded-for",
    "x-csrf-token",
    "jq-proxy-secret",
}
# The first path segments of the API and of probes.
OWN_PATHS: Final = frozenset(
    {"api", "callbacks", "healthz", "mcp", "metrics", "ns", "openapi.json", "readyz"}
)
MAX_KEPT_S = 3650 * DAY_S
MAX_KEPT_JOBS = 100_000_000

_GROUP_ROLE = re.compile(r".+=(viewer|operator|admin)(@[a-z][a-z0-9-]{1,38})?", re.DOTALL)
_QUOTA = re.compile(
    r"(waiting_jobs|waiting_bytes|pushes_per_s|argument_bytes|workers|streams)=[1-9][0-9]{0,11}"
)
_REDACT_PATH = re.compile(r"(argument|result|error|headers)(\.[^.\s]{1,200}){1,16}")

# Matches the host patterns that a target may allow.
HOST_PATTERN = r"\*|(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,250}[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\]"
MAIL_PATTERN = r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,187}[A-Za-z0-9])?$"

Durability = Literal["besteffort", "fsync", "fsync+quorum"]
CheckArguments = Literal["off", "report", "refuse"]


def _words(value: object) -> object:
    """Split a string at blanks, so that a shell or a compose file can write such a list without nested quotes."""
    return value.split() if isinstance(value, str) else value


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
    """A store of namespaces, besides the default one. Its options are those of `Settings` with the same names."""

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


class Settings(BaseSettings):
    """Precedence: arguments, environment (`JQMASTER_PORT=9000`), the TOML file named by `JQMASTER_CONFIG`, defaults."""

    model_config = SettingsConfigDict(
        env_prefix="JQMASTER_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        validate_default=True,
        env_ignore_empty=True,
    )

    # --- listening and access
    host: str = Field(
        "127.0.0.1", description="Address to listen on. Any address other than loopback requires tokens."
    )
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on. 0 lets the system choose one.")
    processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Number of master processes that one `serve` starts on the same port. Each is a complete "
        "master, and every limit applies to each separately.",
    )
    loop_watchdog_s: float = Field(
        30.0,
        ge=0,
        le=3600,
        description="A master whose event loop stands still for this long ends itself, so that its supervisor restarts "
        "it. Time in which the process is stopped or the machine is suspended does not count. 0 turns this off, for "
        "debuggers.",
    )
    allowed_hosts: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Host names that a request may carry, in addition to loopback names and `host`. If the list is "
        "empty and tokens are configured, any name is accepted.",
    )
    tokens: Annotated[list[SecretStr], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Bearer tokens as `scope+scope:token`. The scopes are push, work, read, operate and admin. Only"
        " the SHA-256 of a token is kept.",
    )
    tokens_file: Path | None = Field(
        None,
        description="File with one `scope+scope:token` or `scope+scope:sha256=HEX` per line. `#` starts a comment.",
    )
    tls_certfile: Path | None = Field(
        None, description="Certificate chain (PEM). With `tls_keyfile`, the master serves HTTPS."
    )
    tls_keyfile: Path | None = Field(None, description="Private key (PEM) of `tls_certfile`.")
    tls_client_cafile: Path | None = Field(
        None,
        description="CA certificates (PEM). If set, the master serves only clients that present a certificate "
        "signed by one of them (mutual TLS).",
    )
    calls_cafile: Path | None = Field(
        None,
        description="CA certificates (PEM) that sign the workers' certificates. Default: the system's CA "
        "certificates.",
    )
    calls_certfile: Path | None = Field(
        None, description="Certificate (PEM) that this master presents to workers and to other masters."
    )
    calls_keyfile: Path | None = Field(None, description="Private key (PEM) of `calls_certfile`.")

    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+(/[A-Za-z0-9._~/-]*)?$",
        description="URL under which browsers reach this master through a proxy, such as "
        "`https://jobs.example.org/queue`. If set, requests from loopback need credentials too, because"
        " the proxy's requests may come from there.",
    )
    link_templates: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        max_length=10,
        description="Links that lead from a job to other systems, as `LABEL=URL`, such as "
        "`Logs=https://logs.example/?job={job_id}&attempt={attempt}`. `_` in a label is shown as a blank. The URL may "
        "name `{job_id}`, `{name}`, `{attempt}`, `{created_ms}` and `{finished_ms}`.",
    )
    trusted_proxies: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Networks of the reverse proxies in front of this master, such as `127.0.0.1/32 10.0.0.0/24`. "
        "Limits per address use the client address that these proxies report in `X-Forwarded-For`. "
        "Nothing else trusts that header.",
    )
    hsts_s: int = Field(
        180 * DAY_S,
        ge=0,
        le=2 * 365 * DAY_S,
        description="How long browsers must use HTTPS for this host name, on any port (`Strict-Transport-"
        "Security`). Sent only with TLS. 0: the header is not sent.",
    )
    session_life_s: float = Field(
        DAY_S / 2, ge=60, le=30 * DAY_S, description="Longest life of a login session."
    )
    session_idle_s: float = Field(
        3600, ge=30, le=30 * DAY_S, description="A login session ends after this long without use."
    )
    # --- logins through another system
    oidc_issuer: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$",
        description="Issuer URL of the OpenID Connect provider by which people log in to the web UI, exactly as the "
        "provider names itself. Needs `oidc_client_id` and `public_url`. The provider must allow the redirect URI "
        "`PUBLIC_URL/api/login/oidc/callback`. Default: no login by a provider.",
    )
    oidc_client_id: str | None = Field(
        None, min_length=1, max_length=500, description="Client ID of this service at the provider."
    )
    oidc_client_secret: SecretStr | None = Field(
        None,
        description="Secret of the client at the provider. Without it and `oidc_client_secret_file`, the client is "
        "public and proves itself by PKCE alone.",
    )
    oidc_client_secret_file: Path | None = Field(
        None, description="File that holds the secret of the client at the provider."
    )
    oidc_cafile: Path | None = Field(
        None,
        description="CA certificates (PEM) that sign the provider's certificate. Default: the system's CA "
        "certificates.",
    )
    oidc_scopes: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=lambda: ["openid", "profile", "email"],
        max_length=50,
        description="Scopes that the login asks the provider for. `openid` must be among them.",
    )
    oidc_user_claim: str = Field(
        "preferred_username",
        min_length=1,
        max_length=200,
        description="Claim that names the person in the audit log and in the web UI. Choose one that is unique and "
        "that people cannot change themselves, or `sub`.",
    )
    oidc_groups_claim: str = Field(
        "groups",
        min_length=1,
        max_length=200,
        description="Claim that lists the person's groups. Dots lead through nested claims: `realm_access.roles`.",
    )
    oidc_label: str = Field(
        "single sign-on",
        min_length=1,
        max_length=50,
        description="Name of the provider on the login page: `Log in with …`.",
    )
    login_user_header: str | None = Field(
        None,
        pattern=_HEADER,
        description="Header in which a proxy names the person who has logged in there, such as `X-Forwarded-User` or "
        "`Remote-User`. Needs `login_proxies` and `public_url`. Default: no header is believed.",
    )
    login_groups_header: str | None = Field(
        None,
        pattern=_HEADER,
        description="Header in which the proxy lists the person's groups, separated by commas, such as "
        "`X-Forwarded-Groups`.",
    )
    login_proxies: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Networks of the proxies that people log in to, such as `10.0.0.7/32`. The headers count only in "
        "requests that come from these proxies, directly or through `trusted_proxies` alone. In all other requests "
        "they are ignored, and the log says so. Each proxy must replace the headers that callers send.",
    )
    login_proxy_secret: SecretStr | None = Field(
        None,
        description="Secret that the proxy must send in the header `JQ-Proxy-Secret`. Set it where others can call "
        "from the address of the proxy, as on a shared machine.",
    )
    proxy_login_url: str | None = Field(
        None,
        pattern=_PROXY_URL,
        description="Address at which people log in to the proxy, such as `/oauth2/start`. The login page shows it.",
    )
    proxy_logout_url: str | None = Field(
        None,
        pattern=_PROXY_URL,
        description="Address at which people log out of the proxy, such as `/oauth2/sign_out`. The web UI shows it.",
    )
    group_roles: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        max_length=1000,
        description="Roles of the groups that the provider or the proxy names, as `GROUP=ROLE`, or as "
        "`GROUP=ROLE@NAMESPACE` for a role in that namespace alone. The roles are viewer, operator and admin; the "
        "highest one of a person counts.",
    )
    default_role: Literal["viewer", "operator", "admin"] | None = Field(
        None,
        description="Role of people who are in none of the groups of `group_roles`. Default: they are not let in.",
    )
    login_attempts_per_minute: int = Field(
        10,
        ge=1,
        le=1000,
        description="Failed logins allowed per user and minute; three times as many are allowed per address. "
        "Further attempts get 429. Browsers in which the user has logged in before are counted "
        "separately.",
    )
    failed_registrations_per_minute: int = Field(
        60,
        ge=1,
        le=100_000,
        description="Worker registrations per caller (token and address) and minute that may fail to prove their "
        "address. Further ones get 429.",
    )
    stale_tokens_s: float = Field(
        300.0,
        ge=5,
        le=DAY_S,
        description="How long namespaces of other stores still believe tokens of the installation that only push and "
        "work, while the store of `redis_url` does not answer. Nobody can revoke one meanwhile. Tokens with other "
        "scopes are accepted for 5 s.",
    )
    viewers_see_content: bool = Field(
        False,
        description="Show job content to callers that have only scope read (role viewer): arguments, headers, "
        "results, error values and messages, and the values of constraint keys.",
    )

    audit_export: str | None = Field(
        None,
        min_length=1,
        description="Where to write the audit log continuously, as JSON lines: `stdout`, or a file, which may be "
        "rotated. Only the leader writes, so configure it on every master. Default: not exported.",
    )

    # --- traces
    traces_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^\s?#]+$",
        description="OpenTelemetry collector that receives the spans by OTLP over HTTP, such as "
        "`http://127.0.0.1:4318`. Needs the extra `tracing`. Default: no traces.",
    )

    redact_paths: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        max_length=100,
        description="Parts of job content that no view shows to anyone: `argument.password`, `result.*.token`, "
        "`argument.**.pin`, `error.message`, `headers.authorization`. Workers, and clients that fetch a"
        " result, still receive everything.",
    )

    # --- the store
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
        description="Further stores, in which namespaces can lie: in the file one table `[stores.NAME]` each, with "
        "`redis_url` and, where they apply, `redis_cafile`, `redis_certfile`, `redis_keyfile`, `sentinel_username` and "
        "`sentinel_password`; as variables `JQMASTER_STORES__NAME__REDIS_URL` and so on. A name begins with a letter, "
        "and has up to 39 of the characters a-z 0-9 _ -. Every master needs the same stores.",
    )
    data_dir: Path = Field(
        Path("jqmaster-data"), description="Directory of the embedded Valkey: data, log, socket and lock."
    )
    shard: str = Field("jq", pattern=r"^[a-z0-9_-]{1,32}$", description="Hash tag of all keys: `{jq}:…`.")
    durability: Durability = Field(
        "fsync",
        description="Guarantee that a 201 gives, unless a push asks for another level. A master refuses to start on"
        " a store that cannot give it (`doctor` explains why), and accepts no new jobs when the store "
        "loses it later.",
    )
    declare_durability: Durability | None = Field(
        None,
        description="Durability of a store that does not show its configuration (CONFIG is forbidden). jqmaster "
        "cannot verify it.",
    )
    quorum_replicas: int | None = Field(
        None,
        ge=1,
        le=16,
        description="Replicas that must confirm a write under `fsync+quorum`. Default: as many as form a majority "
        "together with the primary, counted from the most replicas seen since the start.",
    )
    store_timeout_s: float = Field(5.0, ge=0.1, le=60, description="Timeout of one reply from the store.")
    store_connections: int = Field(
        32, ge=4, le=1024, description="Connections to the store per master process."
    )

    # --- the other masters
    node_id: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Name of the machine. Default: the host name. A master on a different node than the leader "
        "takes over first.",
    )
    advertised_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+$",
        description="URL at which other masters reach this one, such as `http://10.0.0.7:8080`. Default: the "
        "address it listens on.",
    )

    # --- limits of a request
    max_body_bytes: int = Field(
        16 * MIB,
        ge=2 * ENVELOPE_BYTES,
        le=256 * MIB,
        description="Largest body of a request. It never lowers the limit for calls of workers and for changes of "
        "settings, which is at least 32 MiB.",
    )
    max_argument_bytes: int = Field(
        256 * KIB,
        ge=KIB,
        le=16 * MIB,
        description="Largest encoded argument of a job. It must be at least 64 KiB less than `max_body_bytes`.",
    )
    check_arguments: CheckArguments = Field(
        "off",
        description="Whether to check new jobs against the argument schemas that workers registered for their names. "
        "`report` logs a job that does not fit, or whose name no worker has ever served, and says so in a header of "
        "the answer; `refuse` refuses it.",
    )
    max_result_bytes: int = Field(
        MIB, ge=KIB, le=16 * MIB, description="Largest encoded result or error of a job."
    )
    max_parts: int = Field(
        10_000, ge=1, le=100_000, description="Maximum number of partial results of one attempt."
    )
    max_parts_bytes: int = Field(
        4 * MIB,
        ge=KIB,
        le=64 * MIB,
        description="Maximum total size of the partial results of one attempt, in bytes.",
    )
    max_log_line_bytes: int = Field(
        16 * KIB,
        ge=256,
        le=MIB,
        description="Longest log line of a job. Longer ones are cut, and their end says so.",
    )
    max_log_bytes: int = Field(
        4 * MIB,
        ge=256 * KIB,
        le=256 * MIB,
        description="Maximum size of one job's log, in bytes. Older lines are dropped.",
    )
    max_logs_bytes: int = Field(
        256 * MIB,
        ge=MIB,
        le=64 * GIB,
        description="Maximum total size of the logs of all jobs in the store, in bytes. Older lines are dropped.",
    )
    max_nesting: int = Field(
        32,
        ge=4,
        le=256,
        description="Deepest nesting of an argument, of a result, and of the body of a push.",
    )
    max_argument_nodes: int = Field(
        20_000, ge=100, le=1_000_000, description="Maximum number of values inside one argument or result."
    )
    max_bulk_jobs: int = Field(
        10_000, ge=1, le=10_000, description="Maximum number of jobs in one bulk enqueue."
    )
    max_header_bytes: int = Field(
        16 * KIB, ge=8 * KIB, le=256 * KIB, description="Largest request line and headers together."
    )
    max_header_count: int = Field(
        64, ge=32, le=1000, description="Maximum number of header lines of a request."
    )
    max_connections: int = Field(
        4096,
        ge=16,
        le=1_000_000,
        description="Maximum number of connections of callers other than workers at once, and at most half of the "
        "allowed file descriptors. Further connections get 503. Workers have the rest of that half, whatever this "
        "limit is.",
    )
    unproven_share: float = Field(
        0.5,
        ge=0.01,
        le=1,
        description="Share of `max_connections` for connections that have not yet presented a valid credential. "
        "Beyond it, the one that has been idle longest is closed.",
    )
    address_share: float = Field(
        0.9,
        ge=0.01,
        le=1,
        description="Share of `max_connections` that one address may hold. An IPv6 /64 counts as one address; "
        "connections of workers do not count. Further connections get 503. Addresses in "
        "`trusted_proxies` are exempt.",
    )
    max_streams: int = Field(
        200,
        ge=1,
        le=10_000,
        description="Maximum number of dashboards that one process serves with live events at once. Further ones get "
        "503.",
    )
    previews_per_minute: int = Field(
        60,
        ge=1,
        le=100_000,
        description="Constraint previews allowed per caller and minute. Further ones get 429.",
    )
    max_definitions: int = Field(
        20_000,
        ge=1,
        le=100_000,
        description="Maximum number of definitions. A request to make a further one gets 409.",
    )
    max_namespaces: int = Field(
        100,
        ge=1,
        le=1_000,
        description="Maximum number of namespaces besides `default`. A request to create a further one gets 409.",
    )
    namespace_quotas: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        max_length=6,
        description="Quotas of all namespaces that have none of their own, `default` included, as `QUOTA=NUMBER`: "
        "`waiting_jobs`, `waiting_bytes`, `pushes_per_s`, `argument_bytes`, `workers` and `streams`. Default: no "
        "bounds.",
    )
    max_event_bytes: int = Field(
        64 * 1024,
        ge=1024,
        le=MIB,
        description="Maximum size of an event's payload as MessagePack, in bytes. A larger one gets 413.",
    )
    max_intake_bytes: int = Field(
        64 * MIB,
        ge=MIB,
        le=64 * 1024 * MIB,
        description="Maximum total size of the push bodies that a master process holds at once, in bytes. Further "
        "pushes get 503 with Retry-After.",
    )
    linger_s: float = Field(
        0.0,
        ge=0,
        le=30,
        description="How long a master that was told to stop goes on serving while `/readyz` answers 503, so that load "
        "balancers stop sending to it before its port closes. On Kubernetes: 5.",
    )
    target_grace_s: float = Field(
        25.0,
        ge=0,
        le=3600,
        description="How long a master that was told to stop waits for the answers to its requests to targets. Then it "
        "cuts them off, and each counts as a loss.",
    )
    receipt_deadline_s: float = Field(
        10.0,
        ge=1,
        le=3600,
        description="Time in which a request must arrive, plus 1 s per 64 KiB of body. Otherwise it gets 408.",
    )
    write_deadline_s: float = Field(
        30.0, ge=1, le=3600, description="A client that reads nothing for this long is disconnected."
    )

    # --- leases and dispatch
    lease_ms: int = Field(
        15_000, ge=500, le=600_000, description="Life of a lease. Each heartbeat renews it."
    )
    offer_ms: int = Field(
        5_000, ge=100, le=60_000, description="Time in which a worker may accept a pushed job."
    )
    heartbeat_interval_s: float = Field(
        1.0,
        ge=0.05,
        le=60,
        description="Interval between a worker's heartbeats. Workers learn a changed one from the "
        "answer to their next heartbeat, or when they get a job.",
    )
    worker_stale_s: float = Field(
        5.0, ge=0.1, le=600, description="A worker that sends no heartbeat for this long gets no new jobs."
    )
    ping_timeout_s: float = Field(
        0.5, ge=0.05, le=10, description="Timeout of a ping. Only workers whose heartbeats stop are pinged."
    )
    max_missed_pings: int = Field(
        3,
        ge=1,
        le=100,
        description="Missed pings in a row, one per second, after which a silent worker is detached.",
    )
    crowd_share: float = Field(
        0.3,
        ge=0,
        le=1,
        description="If more than this share of the fresh workers falls silent within `worker_stale_s`, no job is "
        "reclaimed and no worker detached for a grace period.",
    )
    crowd_least: int = Field(
        3,
        ge=1,
        le=1_000_000,
        description="Fewest silent workers that can start the grace period of `crowd_share`.",
    )
    worker_forget_s: float = Field(
        300.0,
        ge=1,
        le=30 * DAY_S,
        description="A worker that is silent for this long and holds no jobs is forgotten.",
    )
    continue_questions: int = Field(
        3,
        ge=1,
        le=100,
        description="How often a worker that was detached asks whether it may continue its jobs, before it stops them.",
    )
    continue_pause_s: float = Field(
        0.3, ge=0.05, le=60, description="Pause of a detached worker between two of these questions."
    )
    breaker_failures: int = Field(
        5,
        ge=1,
        le=1000,
        description="Failed pushes in a row after which the circuit breaker of a worker opens: it gets no pushes then.",
    )
    breaker_first_open_s: float = Field(
        1.0,
        ge=0.1,
        le=3600,
        description="How long a circuit breaker stays open at first. After that one push probes the worker.",
    )
    breaker_longest_open_s: float = Field(
        30.0,
        ge=0.1,
        le=3600,
        description="Each failed probe keeps a circuit breaker open for twice as long as before, and at most for this "
        "long.",
    )
    timeout_grace_s: float = Field(
        5.0, ge=0, le=600, description="Time after a run's timeout at which the master ends the run itself."
    )
    push_timeout_s: float = Field(3.0, ge=0.1, le=60, description="Timeout of a worker's answer to a push.")
    max_push_jobs: int = Field(
        200, ge=1, le=500, description="Maximum number of jobs in one push to a worker."
    )
    max_losses: int = Field(
        3,
        ge=1,
        le=100,
        description="A job fails with cause `lost` when this many workers have been lost while running it. A "
        "checkpoint that it saves ends the count.",
    )
    alone_wait_s: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="Before its last attempt, a job under which workers were lost waits up to this long for an idle"
        " worker that runs nothing else. After that it runs beside other jobs.",
    )
    leader_ttl_s: float = Field(
        5.0,
        ge=0.5,
        le=60,
        description="Life of the leader's lock. The leader renews it three times in that period.",
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
        description="Networks in which workers may run. Link-local, multicast and cloud metadata addresses, and the"
        " store's address, are never allowed.",
    )

    # --- webhooks
    webhook_secrets: Annotated[list[SecretStr], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Secrets that sign webhooks, such as `whsec_` and 24 to 64 random bytes in base64, the newest "
        "first. Every webhook carries a signature by each of them, so that a secret can be replaced without a gap. "
        "Without one, jobs with `notify` are refused.",
    )
    allowed_webhook_networks: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Networks that webhooks may call in addition to the public internet, such as `10.0.0.0/8`. "
        "Link-local, multicast and cloud metadata addresses, and the store's address, are never called.",
    )

    # --- the gateway for clients of Fireworq
    fireworq_prefix: str | None = Field(
        None,
        pattern=r"^(/[A-Za-z0-9._~-]+)+$",
        description="Path below which masters serve the API of Fireworq, such as `/fireworq`. Its clients change their "
        "address and nothing else. Default: it is not served.",
    )
    fireworq_default_queue: str = Field(
        "default",
        pattern=r"^[A-Za-z0-9_.:-]{0,80}$",
        description="Queue of categories that have no routing. It always exists. Empty: jobs of such categories are "
        "refused.",
    )
    fireworq_networks: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        description="Networks whose callers need no token below `fireworq_prefix`, such as `10.1.0.0/16`, because "
        "clients of Fireworq send none. There they may push, read, and change queues and routings; elsewhere they have "
        "no right. They name the master by an IP address, or by a host in `allowed_hosts`. Default: the gateway asks "
        "for a token, too.",
    )
    fireworq_hosts: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=lambda: ["*"],
        max_length=100,
        description="Hosts to which jobs of the gateway may be sent, such as `app.example` or `*.run.example`. They "
        "also apply to queues that are there. Private addresses must be in `allowed_webhook_networks`, too. Default: "
        "all hosts.",
    )

    # --- mail
    smtp_url: SecretStr | None = Field(
        None,
        description="Mail server that sends notices: `smtp://[user:password@]host[:port]`, which uses STARTTLS if "
        "the server offers it, and requires it if there is a password, or `smtps://…` for TLS from the start. "
        "Default ports: 587 and 465.",
    )
    smtp_cafile: Path | None = Field(
        None,
        description="CA certificates (PEM) that sign the mail server's certificate. Default: the system's CA "
        "certificates.",
    )
    mail_from: str | None = Field(
        None, pattern=MAIL_PATTERN, description="Address that mails come from. Needed with `smtp_url`."
    )
    mail_to: Annotated[list[str], NoDecode, BeforeValidator(_words)] = Field(
        default_factory=list,
        max_length=50,
        description="Addresses that get a mail when jobs fail for good, as long as there are no notices. A burst "
        "of failures sends only one mail.",
    )

    # --- retention
    retention_succeeded_s: float = Field(
        3600,
        ge=0,
        le=MAX_KEPT_S,
        description="How long to keep succeeded, discarded, canceled and skipped jobs. Jobs that a retry of a flow or "
        "batch would need are kept longer.",
    )
    retention_succeeded_max: int = Field(
        100_000,
        ge=0,
        le=MAX_KEPT_JOBS,
        description="Maximum number of jobs to keep in each of the states succeeded, discarded, canceled and skipped, "
        "besides those that a retry of a flow or batch would need.",
    )
    retention_failed_s: float = Field(
        30 * DAY_S, ge=0, le=MAX_KEPT_S, description="How long to keep failed jobs."
    )
    retention_failed_max: int = Field(
        100_000,
        ge=0,
        le=MAX_KEPT_JOBS,
        description="Maximum number of failed jobs to keep, and of jobs of each other state to keep because a retry of "
        "a flow or batch would need them. The oldest are removed first.",
    )
    retention_logs_s: float = Field(
        7 * DAY_S,
        ge=0,
        le=MAX_KEPT_S,
        description="How long to keep log lines of jobs in the store, counted from a job's newest line. If the job is "
        "removed earlier, so are they. With `log_archive_url` they go to the archive instead of being removed.",
    )
    log_archive_wait_s: float = Field(
        7 * DAY_S,
        ge=0,
        le=MAX_KEPT_S,
        description="How much longer to keep log lines of jobs that the archive does not take. After that they are "
        "removed.",
    )
    definition_runs_max: int = Field(
        1_000,
        ge=1,
        le=100_000,
        description="Maximum number of run records to keep of each definition. The oldest are removed first.",
    )
    definition_runs_s: float = Field(
        90 * DAY_S,
        ge=60,
        le=MAX_KEPT_S,
        description="How long to keep run records of definitions, counted from when they were written.",
    )
    batch_life_s: float = Field(
        30 * DAY_S,
        ge=60,
        le=MAX_KEPT_S,
        description="A batch that has no expires_at is canceled if it is not complete after this time.",
    )
    batch_retention_s: float = Field(
        7 * DAY_S, ge=60, le=MAX_KEPT_S, description="How long to keep complete batches."
    )
    event_dedupe_s: float = Field(
        DAY_S,
        ge=1,
        le=30 * DAY_S,
        description="How long the key of an event is remembered. A repeat within this time starts nothing.",
    )
    events_max: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of events to keep for operators. The oldest are removed first.",
    )
    events_s: float = Field(
        7 * DAY_S, ge=60, le=MAX_KEPT_S, description="How long to keep events for operators."
    )
    result_ttl_s: float = Field(
        DAY_S, ge=0, le=MAX_KEPT_S, description="How long to keep a result that nobody fetches."
    )
    result_grace_s: float = Field(
        60, ge=0, le=MAX_KEPT_S, description="How long a result can be fetched again after it was fetched."
    )

    # --- archive of job logs
    log_archive_url: str | None = Field(
        None,
        pattern=r"^(file:///[^?#\s]+|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^?#\s]*)?)$",
        description="Where logs of jobs go after `retention_logs_s`, and when their job is removed: a directory that "
        "all masters share, such as `file:///srv/job-logs`, or storage of the S3 kind, such as `s3://bucket/prefix`. "
        "Needs `jqmaster[archive]`. Default: no archive.",
    )
    log_archive_endpoint: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+/?$",
        description="Address of storage of the S3 kind that is not Amazon's, such as `https://minio.example:9000`.",
    )
    log_archive_cafile: Path | None = Field(
        None,
        description="CA certificates (PEM) that sign the certificate of `log_archive_endpoint`. The system's CA "
        "certificates stay trusted.",
    )
    log_archive_region: str | None = Field(
        None, min_length=1, max_length=100, description="Region of the bucket of `log_archive_url`."
    )
    log_archive_key_id: SecretStr | None = Field(
        None,
        description="Access key ID for `log_archive_url`, with `log_archive_secret`. Default: the credentials of the "
        "environment, such as `AWS_ACCESS_KEY_ID` or the role of the machine.",
    )
    log_archive_secret: SecretStr | None = Field(
        None, description="Secret access key of `log_archive_key_id`."
    )

    # --- logs
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description="Lowest level to log. `debug` follows each job through this master, and logs why requests are "
        "refused and each new connection to the store.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="Format of log lines: readable text, or one JSON object per line."
    )

    @field_validator("redact_paths")
    @classmethod
    def _are_paths(cls, paths: list[str]) -> list[str]:
        for path in paths:
            if not _REDACT_PATH.fullmatch(path) or path.endswith(".**") or path.count("**") > 1:
                raise ValueError(
                    f"{path[:100]}: expected argument, result, error or headers, followed by keys, each after a dot; "
                    "** may occur only once, and not at the end"
                )
        return paths

    @field_validator("group_roles")
    @classmethod
    def _are_group_roles(cls, entries: list[str]) -> list[str]:
        for entry in entries:
            if not _GROUP_ROLE.fullmatch(entry):
                raise ValueError(
                    f"{entry[:100]}: expected GROUP=ROLE or GROUP=ROLE@NAMESPACE, with viewer, operator or admin"
                )
        return entries

    @field_validator("namespace_quotas")
    @classmethod
    def _are_quotas(cls, entries: list[str]) -> list[str]:
        for entry in entries:
            if not _QUOTA.fullmatch(entry):
                raise ValueError(
                    f"{entry[:100]}: expected QUOTA=NUMBER, such as waiting_jobs=100000, with one of waiting_jobs, "
                    "waiting_bytes, pushes_per_s, argument_bytes, workers and streams"
                )
        if len({entry.partition("=")[0] for entry in entries}) < len(entries):
            raise ValueError("a quota is named twice; name each once")
        return entries

    @field_validator("webhook_secrets")
    @classmethod
    def _are_webhook_secrets(cls, secrets: list[SecretStr]) -> list[SecretStr]:
        for secret in secrets:
            secret_bytes(secret.get_secret_value())
        return secrets

    @field_validator("link_templates")
    @classmethod
    def _are_link_templates(cls, templates: list[str]) -> list[str]:
        for template in templates:
            LinkTemplate.parse(template)
        return templates

    @field_validator("smtp_url")
    @classmethod
    def _is_smtp_url(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None:
            SmtpUrl.parse(url.get_secret_value())
        return url

    @field_validator("mail_to")
    @classmethod
    def _are_mail_addresses(cls, addresses: list[str]) -> list[str]:
        for address in addresses:
            if not re.fullmatch(MAIL_PATTERN, address):
                raise ValueError(f"{address[:100]}: expected a mail address such as ops@shop.example")
        return addresses

    @field_validator("fireworq_prefix")
    @classmethod
    def _is_free_prefix(cls, prefix: str | None) -> str | None:
        if prefix is not None and prefix.split("/")[1] in OWN_PATHS:
            raise ValueError(f"{prefix} is a path of the master's own API; choose another, such as /fireworq")
        return prefix

    @field_validator("fireworq_hosts")
    @classmethod
    def _are_hosts(cls, hosts: list[str]) -> list[str]:
        for host in hosts:
            if not re.fullmatch(HOST_PATTERN, host):
                raise ValueError(
                    f"{host[:100]}: expected a host, *.app.example for all below it, or * for all"
                )
        if not hosts:
            raise ValueError(
                "must name at least one host, because jobs of the gateway choose their addresses"
            )
        return hosts

    @field_validator("trusted_proxies", "login_proxies", "allowed_webhook_networks", "fireworq_networks")
    @classmethod
    def _are_networks(cls, networks: list[str]) -> list[str]:
        for text in networks:
            ipaddress.ip_network(text)
        return networks

    @field_validator("login_proxies")
    @classmethod
    def _are_proxies(cls, networks: list[str]) -> list[str]:
        for text in networks:
            if ipaddress.ip_network(text).prefixlen == 0:
                raise ValueError(f"{text}: with every address, anybody could name themselves admin")
        return networks

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
    def _consistent(self) -> "Settings":
        for rule in RULES:
            if not rule.holds(self):
                raise ValueError(rule.text)
        if (self.tls_certfile is None) != (self.tls_keyfile is None):
            raise ValueError("set both tls_certfile and tls_keyfile, or neither")
        if self.tls_client_cafile and not self.tls_certfile:
            raise ValueError("tls_client_cafile requires tls_certfile")
        if (self.calls_certfile is None) != (self.calls_keyfile is None):
            raise ValueError("set both calls_certfile and calls_keyfile, or neither")
        if self.smtp_url and not self.mail_from:
            raise ValueError("smtp_url requires mail_from")
        if (self.mail_from or self.mail_to or self.smtp_cafile) and not self.smtp_url:
            raise ValueError("mail_from, mail_to and smtp_cafile require smtp_url")
        if fault := self._oidc_fault() or self._proxy_fault() or self._archive_fault() or _store_fault(self):
            raise ValueError(fault)
        return self

    def at_store(self, name: str, shard: str) -> "Settings":
        """Return these settings as if the store `name` were the only one, and `shard` the only shard in it. Raise
        KeyError if no store has this name."""
        options = (
            {} if name == DEFAULT_STORE else {key: getattr(self.stores[name], key) for key in STORE_OPTIONS}
        )
        return self.model_copy(update={**options, "shard": shard})

    def _oidc_fault(self) -> str | None:
        if self.oidc_issuer is None:
            needless = [
                name
                for name in ("oidc_client_id", "oidc_client_secret", "oidc_client_secret_file", "oidc_cafile")
                if getattr(self, name) is not None
            ]
            return f"{needless[0]} requires oidc_issuer" if needless else None
        if self.oidc_client_id is None:
            return "oidc_issuer requires oidc_client_id"
        if self.public_url is None:
            return "oidc_issuer requires public_url, to which the provider sends people back"
        if self.oidc_client_secret and self.oidc_client_secret_file:
            return "set oidc_client_secret or oidc_client_secret_file, not both"
        if "openid" not in self.oidc_scopes:
            return "oidc_scopes must include openid"
        if not self.group_roles and self.default_role is None:
            return "oidc_issuer requires group_roles or default_role: otherwise nobody may log in by it"
        host = urlsplit(self.oidc_issuer).hostname or ""
        if not self.oidc_issuer.startswith("https://") and host not in ("localhost", "127.0.0.1", "::1"):
            return "oidc_issuer must begin with https://, except on this machine"
        return None

    def _archive_fault(self) -> str | None:
        if (self.log_archive_key_id is None) != (self.log_archive_secret is None):
            return "set both log_archive_key_id and log_archive_secret, or neither"
        if not (self.log_archive_url or "").startswith("s3://"):
            for name in (
                "log_archive_endpoint",
                "log_archive_cafile",
                "log_archive_region",
                "log_archive_key_id",
            ):
                if getattr(self, name) is not None:
                    return f"{name} requires a log_archive_url that begins with s3"
        return None

    def _proxy_fault(self) -> str | None:
        if self.login_user_header is None:
            needless = (
                "login_groups_header",
                "login_proxies",
                "login_proxy_secret",
                "proxy_login_url",
                "proxy_logout_url",
            )
            found = next((name for name in needless if getattr(self, name)), None)
            return f"{found} requires login_user_header" if found else None
        for name in (self.login_user_header, self.login_groups_header or ""):
            if name.lower() in _OTHER_HEADERS:
                return f"{name} names no person and no groups"
        if not self.login_proxies:
            return "login_user_header requires login_proxies, whose word is taken"
        if self.public_url is None:
            return "login_user_header requires public_url, at which the proxy serves"
        if not self.group_roles and self.default_role is None:
            return "login_user_header requires group_roles or default_role: otherwise nobody has a role"
        return None

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


def _store_fault(store: Settings | StoreSettings) -> str | None:
    """Return the fault in the options of a store; None: they are valid."""
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


class Rule(NamedTuple):
    """A condition between settings; `fields` names the settings that it compares.

    `fitted` returns the values with which the condition holds, if one of them can simply be lowered to the largest that
    fits. They replace values that an older release accepted.
    """

    fields: tuple[str, ...]
    holds: Callable[[Settings], bool]
    text: str
    fitted: Callable[[Settings], Mapping[str, int]] | None = None


def _fits_into_body(key: str, content: str) -> Rule:
    """Return the rule that the largest `content` fits into the largest body."""
    return Rule(
        (key, "max_body_bytes"),
        lambda s: getattr(s, key) + ENVELOPE_BYTES <= s.max_body_bytes,
        f"{key} must be at least {ENVELOPE_BYTES} bytes less than max_body_bytes, because a body carries more than "
        f"{content}: lower {key} or raise max_body_bytes",
        lambda s: {key: s.max_body_bytes - ENVELOPE_BYTES},
    )


def _is_part_of(key: str, whole: str) -> Rule:
    """Return the rule that a part is not allowed to be larger than the whole."""
    return Rule(
        (key, whole),
        lambda s: getattr(s, key) <= getattr(s, whole),
        f"{key} must not be larger than {whole}: lower {key} or raise {whole}",
        lambda s: {key: getattr(s, whole)},
    )


# The rules that settings must obey together. `fields` names the settings of a rule, so that a refused change at run
# time can say which ones are inconsistent.
RULES: Final = (
    Rule(
        ("offer_ms", "lease_ms"),
        lambda s: s.offer_ms * 2 <= s.lease_ms,
        "offer_ms must be at most half of lease_ms: a late acceptance must still leave time to renew the lease",
    ),
    Rule(
        ("lease_ms", "heartbeat_interval_s"),
        lambda s: s.heartbeat_interval_s * 3000 <= s.lease_ms,
        "lease_ms must be at least three times heartbeat_interval_s: raise lease_ms or lower heartbeat_interval_s",
    ),
    Rule(
        ("worker_stale_s", "heartbeat_interval_s"),
        lambda s: s.heartbeat_interval_s * 2 <= s.worker_stale_s,
        "worker_stale_s must be at least two times heartbeat_interval_s, or workers count as silent between two "
        "heartbeats: raise worker_stale_s or lower heartbeat_interval_s",
    ),
    Rule(
        ("worker_forget_s", "heartbeat_interval_s"),
        lambda s: s.heartbeat_interval_s * 3 <= s.worker_forget_s,
        "worker_forget_s must be at least three times heartbeat_interval_s, or idle workers are forgotten between two "
        "heartbeats: raise worker_forget_s or lower heartbeat_interval_s",
    ),
    Rule(
        ("breaker_first_open_s", "breaker_longest_open_s"),
        lambda s: s.breaker_first_open_s <= s.breaker_longest_open_s,
        "breaker_first_open_s must not be longer than breaker_longest_open_s",
    ),
    _fits_into_body("max_argument_bytes", "its argument"),
    _fits_into_body("max_event_bytes", "a payload"),
    _is_part_of("max_log_line_bytes", "max_log_bytes"),
    _is_part_of("max_log_bytes", "max_logs_bytes"),
)
