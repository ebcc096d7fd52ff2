"""Webhooks, mail, and the gateway for clients of Fireworq."""

import re
from pathlib import Path
from typing import Final

from pydantic import Field, SecretStr, field_validator, model_validator

from jqmaster.config.values import HOST_PATTERN, MAIL_PATTERN, Networks, SecretWords, SettingsBase, Words
from jqmaster.net.smtp_url import SmtpUrl
from jqmaster.net.webhook_secret import secret_bytes

# The first path segments of the API and of probes.
OWN_PATHS: Final = frozenset(
    {"api", "callbacks", "healthz", "mcp", "metrics", "ns", "openapi.json", "readyz"}
)


class OutboundSettings(SettingsBase):
    """Webhooks, mail, and the gateway for clients of Fireworq."""

    webhook_secrets: SecretWords = Field(
        default_factory=list,
        description=(
            "Secrets that sign webhooks, the newest first. A secret is `whsec_`, followed by 24 to "
            "64 random bytes in base64. Every webhook carries a signature by each secret, so that a "
            "secret can be replaced without a gap. Without a secret, jobs with `notify` are "
            "refused."
        ),
    )
    allowed_webhook_networks: Networks = Field(
        default_factory=list,
        description="Networks that webhooks may call in addition to the public internet, such as `10.0.0.0/8`. "
        "Link-local, multicast and cloud metadata addresses, and the store's address, are never called.",
    )
    fireworq_prefix: str | None = Field(
        None,
        pattern=r"^(/[A-Za-z0-9._~-]+)+$",
        description=(
            "Path below which masters serve the API of Fireworq, such as `/fireworq`. Clients of "
            "Fireworq need only a new address. Default: it is not served."
        ),
    )
    fireworq_default_queue: str = Field(
        "default",
        pattern=r"^[A-Za-z0-9_.:-]{0,80}$",
        description=(
            "Queue for categories without a routing. It always exists. Empty: jobs of such "
            "categories are refused."
        ),
    )
    fireworq_networks: Networks = Field(
        default_factory=list,
        description=(
            "Networks from which callers need no token below `fireworq_prefix`, such as "
            "`10.1.0.0/16`, because clients of Fireworq send no token. Below this path, such "
            "callers may push, read, and change queues and routings. They have no rights at other "
            "paths. They must address the master by an IP address, or by a host in `allowed_hosts`. "
            "Default: the gateway also requires a token."
        ),
    )
    fireworq_hosts: Words = Field(
        default_factory=lambda: ["*"],
        max_length=100,
        description=(
            "Hosts to which jobs of the gateway may be sent, such as `app.example` or "
            "`*.run.example`. The list also applies to existing queues. Private addresses must also "
            "be in `allowed_webhook_networks`. Default: all hosts."
        ),
    )
    smtp_url: SecretStr | None = Field(
        None,
        description=(
            "Mail server that sends notices: `smtp://[user:password@]host[:port]`, or `smtps://…` "
            "for TLS from the start. `smtp://` uses STARTTLS if the server offers it. With a "
            "password, STARTTLS is required. Default ports: 587 for `smtp`, 465 for `smtps`."
        ),
    )
    smtp_cafile: Path | None = Field(
        None,
        description="CA certificates (PEM) that sign the mail server's certificate. Default: the system's CA "
        "certificates.",
    )
    mail_from: str | None = Field(
        None, pattern=MAIL_PATTERN, description="Sender address of mails. Required with `smtp_url`."
    )
    mail_to: Words = Field(
        default_factory=list,
        max_length=50,
        description=(
            "Addresses that get a mail when jobs fail for good, as long as there are no notices. A "
            "burst of failures causes only one mail."
        ),
    )

    @field_validator("webhook_secrets")
    @classmethod
    def _are_webhook_secrets(cls, secrets: list[SecretStr]) -> list[SecretStr]:
        for secret in secrets:
            secret_bytes(secret.get_secret_value())
        return secrets

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
                "must name at least one host, because jobs of the gateway choose their own addresses"
            )
        return hosts

    @model_validator(mode="after")
    def _has_whole_mail(self) -> "OutboundSettings":
        if self.smtp_url and not self.mail_from:
            raise ValueError("smtp_url requires mail_from")
        if (self.mail_from or self.mail_to or self.smtp_cafile) and not self.smtp_url:
            raise ValueError("mail_from, mail_to and smtp_cafile require smtp_url")
        return self
