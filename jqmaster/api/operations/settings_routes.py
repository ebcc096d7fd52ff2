"""Routes of the settings."""

from typing import Final

from jqmaster.api.http.auth import Scope
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import settings, settings_schemas

_STORE: Final = (503,)
_LIST_TEXT: Final = (
    "What is in force at this master. Secrets are named and never shown; paths of files and networks are shown from scope "
    "operate on."
)
_PATCH_TEXT: Final = (
    "Changes settings of all masters, within a second, and until they are changed again; null takes a change back. Either "
    "all of it is taken or nothing. Settings that do not change at run time are refused, and so, without scope admin, are those "
    "that decide who is let in and who sees what: `change_scope` tells."
)

OPERATIONS: Final = [
    Operation("GET", "/api/settings", settings.list_settings, Scope.READ, "List the settings", "operations",
              {200: settings_schemas.SettingsAnswer}, problems=_STORE, text=_LIST_TEXT),
    Operation("PATCH", "/api/settings", settings.change, Scope.OPERATE, "Change settings at run time", "operations",
              {200: settings_schemas.SettingsAnswer}, settings_schemas.SettingsRequest, problems=(409, *_STORE), text=_PATCH_TEXT),
]  # fmt: skip
