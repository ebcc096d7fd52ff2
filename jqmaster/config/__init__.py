"""Settings of a master: one frozen model, read from arguments, `JQMASTER_…` variables or a TOML file.

The table in docs/config.md is generated from this model (`make docs`).
"""

from jqmaster.config.settings import RULES, Settings
from jqmaster.config.stores import DEFAULT_STORE, StoreSettings
from jqmaster.config.values import KIB, MIB, Durability

__all__ = ["DEFAULT_STORE", "KIB", "MIB", "RULES", "Durability", "Settings", "StoreSettings"]
