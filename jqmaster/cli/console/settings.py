"""Settings from the command line. They take precedence over the environment and the configuration file."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jqmaster.cli.console import exits, output
from worker_sdk.transport.suggestions import suggestion

if TYPE_CHECKING:
    from jqmaster.config import Settings

_PASSWORD_IN_URL = re.compile(r"://[^/?#@]*:[^/?#]+@|[?&]password=", re.IGNORECASE)

# Settings that name files which are used together: the certificate, its key, and the CA certificates.
_TLS_FILES = (
    ("tls_certfile", "tls_keyfile", ""),
    ("", "", "tls_client_cafile"),
    ("calls_certfile", "calls_keyfile", ""),
    ("", "", "calls_cafile"),
    ("redis_certfile", "redis_keyfile", ""),
    ("", "", "redis_cafile"),
    ("", "", "smtp_cafile"),
    ("", "", "oidc_cafile"),
    ("", "", "log_archive_cafile"),
)

RedisOption = Annotated[
    str | None,
    typer.Option(
        "--redis",
        help="Address of the store. If it contains a password, set it as JQMASTER_REDIS_URL or in --config, "
        "where `ps` does not show it.",
    ),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        help="Directory of the embedded Valkey, used if no store is configured. Default: jqmaster-data."
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="TOML file with settings.", exists=True, dir_okay=False)
]


def refuse_misspelt_variables() -> None:
    """End the command if a JQMASTER_… variable is misspelt. Print a warning about other JQMASTER_… variables that
    no program reads."""
    from worker_sdk.transport.variables import unknown_text, unknown_variables

    found = unknown_variables(os.environ)
    if found.misspelt:
        lines = "\n".join(f"  {fault}" for fault in found.faults)
        exits.fail(exits.USAGE, f"the environment is not valid\n{lines}")
    if found.others:
        output.echo(f"Warning: {unknown_text(found.others)}", is_error=True)


def load_settings(config: Path | None = None, **given: Any) -> "Settings":
    """Return the settings from all sources. End the command if they are not valid.

    `given`: values of options. None: the option is not given."""
    if _PASSWORD_IN_URL.search(given.get("redis_url") or ""):
        exits.fail(
            exits.USAGE,
            "--redis shows its password to every process of this machine: put the address into "
            "JQMASTER_REDIS_URL or a file "
            "that --config names (and change the password)",
        )
    refuse_misspelt_variables()
    from pydantic import ValidationError

    from jqmaster.config import Settings

    if config is not None:
        os.environ["JQMASTER_CONFIG"] = str(config)
    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        # Leave out the invalid value, because it may be a secret.
        lines = [f"  {_fault(e['loc'], e['type'], e['msg'])}" for e in error.errors(include_input=False)]
        exits.fail(exits.USAGE, "the settings are not valid\n" + "\n".join(lines))
    except (OSError, ValueError) as error:
        exits.fail(exits.USAGE, f"the settings cannot be read: {error}")
    _check_tls_files(settings)
    return settings


def _check_tls_files(settings: "Settings") -> None:
    """End the command if a certificate, a key or a file of CA certificates cannot be used."""
    from worker_sdk.transport.tls import TlsFileError, check_files

    for names in _TLS_FILES:
        files = [getattr(settings, name) if name else None for name in names]
        if not any(files):
            continue
        try:
            check_files(*files)
        except TlsFileError as error:
            given = [name for name, file in zip(names, files, strict=True) if file]
            at_fault = [name for name in given if f"{getattr(settings, name)}" in str(error)] or given
            exits.fail(exits.USAGE, f"the settings are not valid\n  {', '.join(at_fault)}: {error}")


def _fault(loc: tuple[str | int, ...], kind: str, msg: str) -> str:
    from jqmaster.config import Settings

    name = ".".join(map(str, loc)) or "settings"
    if kind == "string_pattern_mismatch" and (field := Settings.model_fields.get(name)):
        # Show the setting's description, which has examples, because people cannot read the pattern.
        return f"{name}: not valid. It is: {(field.description or msg).replace('`', '')}"
    if kind != "extra_forbidden":
        return f"{name}: {msg}"
    return f"{name}: no such setting{suggestion(name, Settings.model_fields)}"


def plain_settings(settings: "Settings") -> dict[str, Any]:
    """Return the configured settings, including secrets, as values for JSON. Settings with their defaults are
    omitted."""
    return {name: _plain(getattr(settings, name)) for name in settings.model_fields_set}


def _plain(value: Any) -> Any:
    from pydantic import BaseModel, SecretStr

    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in value.model_fields_set}
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value
