"""HTTP models of settings. All settings are listed, and some can be changed at run time."""

from typing import Any, Final, Literal

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from jqmaster.api.schemas import SINCE, Answer, Request
from jqmaster.config import Settings
from jqmaster.service.operations.settings_catalog import CATALOG


class SettingView(Answer):
    """One setting and its effect."""

    key: str
    group: str
    label: str
    effect: str = Field(description="Description of the setting in a few sentences.")
    type: Literal["integer", "number", "boolean", "text", "list", "choice"]
    unit: str | None = Field(description="Unit: ms, s or bytes.")
    value: Any = Field(description="Value in force at this master. Null if it is secret or not set.")
    default: Any
    minimum: float | None = Field(
        description="Lower bound. For a few settings, the value must be greater than this bound."
    )
    maximum: float | None
    choices: list[str] | None
    is_runtime: bool = Field(
        description=(
            "True: the setting can be changed at run time. Other settings are read when a master starts."
        )
    )
    is_secret: bool
    is_hidden: bool = Field(
        description=("True: the value is hidden from callers that have only the scope read.")
    )
    is_overridable: bool = Field(
        description="True: each namespace can have its own value.", json_schema_extra=SINCE
    )
    change_scope: Literal["operate", "admin"] | None = Field(
        description=(
            "Scope that is needed to change the setting at this path at run time. Null: it cannot "
            "be changed at this path."
        )
    )
    source: Literal["default", "configured", "runtime", "namespace"] = Field(
        description=(
            "Origin of the value. `namespace`: the namespace overrides the value of the "
            "installation. All other origins are those of the installation's value."
        )
    )
    reset_value: Any = Field(
        description=(
            "Value after a reset: the configured value or, in a namespace, the value of the "
            "installation. Null: the value is secret, hidden or not set."
        ),
        json_schema_extra=SINCE,
    )


class SettingsAnswer(Answer):
    """All settings, sorted by group."""

    settings: list[SettingView]
    version: int = Field(description="Version of the run-time changes. 0: no setting was changed.")


def _nullable(field: FieldInfo) -> tuple[Any, Any]:
    bounds = {
        word: getattr(m, word)
        for m in field.metadata
        for word in ("ge", "gt", "le", "lt")
        if hasattr(m, word)
    }
    return field.annotation | None, Field(None, description=field.description, **bounds)  # type: ignore[operator]


_FIELDS: Final[dict[str, Any]] = {
    key: _nullable(Settings.model_fields[key]) for key, info in CATALOG.items() if info.is_runtime
}
SettingsRequest: type[BaseModel] = create_model(
    "SettingsRequest",
    __base__=Request,
    __doc__="Settings to change. Null resets a setting. Omitted settings stay unchanged.",
    **_FIELDS,
)
