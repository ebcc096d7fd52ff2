"""Check environment variables named `JQMASTER_…`: find unknown and misspelt names."""

import functools
import logging
import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from worker_sdk.transport.setting_names import SETTING_NAMES
from worker_sdk.transport.suggestions import closest

logger = logging.getLogger(__name__)

PREFIX: Final = "JQMASTER_"
# Names of variables that commands, workers and pushers read. The masters' settings are known names as well.
CLIENT_NAMES: Final = frozenset(
    {
        "BACKUP_PASSPHRASE", "CLIENT_CAFILE", "CLIENT_CERTFILE", "CLIENT_KEYFILE", "CONFIG", "HEALTH_FILE", "JOB_ID",
        "NAMESPACE", "RELOADED", "TOKEN",
        "TOKEN_FILE", "UI", "URL", "WORKER_CERTFILE", "WORKER_CLIENT_CAFILE", "WORKER_HOST", "WORKER_KEYFILE",
        "WORKER_LOG_LEVEL", "WORKER_NAMESPACES", "WORKER_PULL", "WORKER_URL",
    }
)  # fmt: skip
# Names of variables that docker-compose.yml and this repository's tests and tools read.
_NAMES_OF_TOOLS: Final = frozenset(
    {
        "ADMIN_TOKEN", "BATCHES", "CONFORMANCE", "FUZZ_EXAMPLES", "GENERATORS", "HYPOTHESIS", "ITERATION_ROWS",
        "SCREENSHOTS", "STORE_PASSWORD", "WORKER_TOKEN",
    }
)  # fmt: skip
# Patterns of further known names: settings of additional stores, and variables that Kubernetes sets for services with a
# name that begins with jqmaster.
_PATTERNS: Final = re.compile(
    r"TEST_\w+|\w+_KILLS|STORES__\w+?__(REDIS_(URL|CAFILE|CERTFILE|KEYFILE)|SENTINEL_(USERNAME|PASSWORD))|"
    r"(\w+_)?SERVICE_(HOST|PORT)(_\w+)?|(\w+_)?PORT(_\d+_\w+)?",
    re.ASCII,
)
# Names of variables of other programs, each with the name of ours.
_OTHER_WORDS: Final = {
    "CAFILE": "CLIENT_CAFILE",
    "CERTFILE": "CLIENT_CERTFILE",
    "KEYFILE": "CLIENT_KEYFILE",
    "MASTER": "URL",
    "MASTERS": "URL",
    "MASTER_URL": "URL",
    "ADDRESS": "URL",
    "ENDPOINT": "URL",
    "SERVER": "URL",
    "SERVER_URL": "URL",
    "URI": "URL",
    "API_KEY": "TOKEN",
    "API_TOKEN": "TOKEN",
    "STORE_URL": "REDIS_URL",
}


class UnknownVariables(NamedTuple):
    """Variables that no program reads. `misspelt`: the variables that resemble a known name, each with this name."""

    misspelt: Mapping[str, str]
    others: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        """Return one text for each misspelt variable."""
        return [f"{name}: no such variable; did you mean {meant}?" for name, meant in self.misspelt.items()]


def unknown_variables(environ: Mapping[str, str]) -> UnknownVariables:
    """Return the variables of `environ` that begin with `JQMASTER_` and are not known."""
    known = CLIENT_NAMES | _NAMES_OF_TOOLS | {name.upper() for name in SETTING_NAMES}
    misspelt, others = {}, []
    for variable in sorted(environ):
        if not variable.upper().startswith(PREFIX):
            continue
        name = variable[len(PREFIX) :].upper()
        if name in known or _PATTERNS.fullmatch(name):
            continue
        if meant := _OTHER_WORDS.get(name) or closest(name, sorted(known - _NAMES_OF_TOOLS)):
            misspelt[variable] = PREFIX + meant
        else:
            others.append(variable)
    return UnknownVariables(misspelt, tuple(others))


def unknown_text(names: tuple[str, ...]) -> str:
    """Return the warning about variables that no program reads."""
    return f"nothing reads {', '.join(names)}: variables that begin with {PREFIX} are settings of jqmaster"


@functools.cache
def check_variables() -> None:
    """Raise ValueError if a variable of this process is misspelt, and log a warning about other variables that no
    program reads. Later calls in the process do nothing."""
    found = unknown_variables(os.environ)
    if found.misspelt:
        raise ValueError("; ".join(found.faults))
    if found.others:
        logger.warning("%s", unknown_text(found.others))
