"""Routes of the settings."""

from typing import Final

from jqmaster.api.http.auth import Scope
from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import settings, settings_schemas

_STORE: Final = (503,)
_LIST_TEXT: Final = (
    "Lists the values in force at this master. Below the path of a namespace, these are the namespace's own "
    "values and the values of the installation. Values of secrets are never shown. File paths and networks "
    "need the scope operate."
)
_PATCH_TEXT: Final = (
    "Changes settings on all masters within a second. null resets a setting to its configured value. The "
    "request is applied completely or refused. Settings that cannot change at run time are refused. "
    "Settings of the group Access need the scope admin; see `change_scope`. Below the path of a namespace, "
    "the request overrides settings of the installation in that namespace only. null then resets a setting "
    "to the value of the installation. Settings that are not `is_overridable` are refused."
)

OPERATIONS: Final = [
    Operation("GET", "/api/settings", settings.list_settings, Scope.READ, "List the settings", "operations",
              {200: settings_schemas.SettingsAnswer}, problems=_STORE, text=_LIST_TEXT, undoes_limits=True),
    Operation("PATCH", "/api/settings", settings.change, Scope.OPERATE, "Change settings at run time", "operations",
              {200: settings_schemas.SettingsAnswer}, settings_schemas.SettingsRequest, problems=(404, 409, *_STORE),
              text=_PATCH_TEXT, undoes_limits=True, changes_installation=True),
]  # fmt: skip
