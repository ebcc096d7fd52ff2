"""The addresses on which a master listens, and the callers that it trusts."""

from pathlib import Path

from pydantic import Field, field_validator, model_validator

from jqmaster.config.values import DAY_S, Networks, SecretWords, SettingsBase, Words
from jqmaster.net.link_template import LinkTemplate


class ListeningSettings(SettingsBase):
    """Listening and access."""

    host: str = Field(
        "127.0.0.1", description="Address to listen on. Any address other than loopback requires tokens."
    )
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on. 0 lets the system choose one.")
    processes: int = Field(
        1,
        ge=1,
        le=64,
        description=(
            "Number of master processes that one `serve` starts on the same port. Each process is a "
            "complete master, and every limit applies to each process separately."
        ),
    )
    loop_watchdog_s: float = Field(
        30.0,
        ge=0,
        le=3600,
        description=(
            "If the event loop of a master stands still for this long, the master ends itself, so "
            "that its supervisor restarts it. Time during which the process is stopped or the "
            "machine is suspended does not count. 0 turns this check off, for example for "
            "debuggers."
        ),
    )
    allowed_hosts: Words = Field(
        default_factory=list,
        description="Host names that a request may carry, in addition to loopback names and `host`. If the list is "
        "empty and tokens are configured, any name is accepted.",
    )
    tokens: SecretWords = Field(
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
        description=(
            "CA certificates (PEM). If set, the master serves only clients that present a "
            "certificate that one of these CAs signed (mutual TLS)."
        ),
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
        description=(
            "URL at which browsers reach this master through a proxy, such as "
            "`https://jobs.example.org/queue`. If set, requests from loopback also need "
            "credentials, because the proxy's requests may come from loopback."
        ),
    )
    link_templates: Words = Field(
        default_factory=list,
        max_length=10,
        description=(
            "Links from a job to other systems, as `LABEL=URL`, such as "
            "`Logs=https://logs.example/?job={job_id}&attempt={attempt}`. `_` in a label is shown "
            "as a blank. The URL may contain `{job_id}`, `{name}`, `{attempt}`, `{created_ms}` and "
            "`{finished_ms}`."
        ),
    )
    trusted_proxies: Networks = Field(
        default_factory=list,
        description=(
            "Networks of the reverse proxies in front of this master, such as `127.0.0.1/32 "
            "10.0.0.0/24`. Limits per address use the client address that these proxies report in "
            "`X-Forwarded-For`. The master uses that header for nothing else."
        ),
    )
    hsts_s: int = Field(
        180 * DAY_S,
        ge=0,
        le=2 * 365 * DAY_S,
        description="How long browsers must use HTTPS for this host name, on any port (`Strict-Transport-"
        "Security`). Sent only with TLS. 0: the header is not sent.",
    )
    session_life_s: float = Field(
        DAY_S / 2, ge=60, le=30 * DAY_S, description="Maximum life of a login session."
    )
    session_idle_s: float = Field(
        3600, ge=30, le=30 * DAY_S, description="A login session ends after this long without use."
    )

    @field_validator("link_templates")
    @classmethod
    def _are_link_templates(cls, templates: list[str]) -> list[str]:
        for template in templates:
            LinkTemplate.parse(template)
        return templates

    @model_validator(mode="after")
    def _has_whole_pairs(self) -> "ListeningSettings":
        if (self.tls_certfile is None) != (self.tls_keyfile is None):
            raise ValueError("set both tls_certfile and tls_keyfile, or neither")
        if self.tls_client_cafile and not self.tls_certfile:
            raise ValueError("tls_client_cafile requires tls_certfile")
        if (self.calls_certfile is None) != (self.calls_keyfile is None):
            raise ValueError("set both calls_certfile and calls_keyfile, or neither")
        return self
