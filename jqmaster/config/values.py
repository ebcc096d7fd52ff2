"""Types, patterns and bounds of settings."""

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr
from pydantic_settings import NoDecode

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
DAY_S = 86_400
MAX_KEPT_S = 3650 * DAY_S
MAX_KEPT_JOBS = 100_000_000
# Matches host patterns that a target may have in `allow_hosts`.
HOST_PATTERN = r"\*|(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]{0,250}[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\]"
MAIL_PATTERN = r"^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,187}[A-Za-z0-9])?$"

Durability = Literal["besteffort", "fsync", "fsync+quorum"]
CheckArguments = Literal["off", "report", "refuse"]


class SettingsBase(BaseModel):
    """Base of the classes from which `Settings` inherits."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def _words(value: object) -> object:
    """Split a string at blanks into a list. So people can write a list in a shell or a compose file without nested
    quotes."""
    return value.split() if isinstance(value, str) else value


def _are_networks(networks: list[str]) -> list[str]:
    for text in networks:
        ipaddress.ip_network(text)
    return networks


Words = Annotated[list[str], NoDecode, BeforeValidator(_words)]
SecretWords = Annotated[list[SecretStr], NoDecode, BeforeValidator(_words)]
Networks = Annotated[list[str], NoDecode, BeforeValidator(_words), AfterValidator(_are_networks)]
