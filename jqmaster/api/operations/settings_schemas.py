"""Settings as they travel: every one is told of, those that change at run time can be changed."""

from typing import Any, Final, Literal

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from jqmaster.api.schemas import Answer, Request
from jqmaster.config import Settings
from jqmaster.service.operations.settings_catalog import CATALOG


class SettingView(Answer):
    """One setting and what it does."""

    key: str
    group: str
    label: str
    effect: str = Field(description="One sentence, or two.")
    type: Literal["integer", "number", "boolean", "text", "list", "choice"]
    unit: str | None = Field(description="ms, s or bytes.")
    value: Any = Field(
        description="In force at this master; null where it is secret, or where there is none."
    )
    default: Any
    minimum: float | None = Field(description="A `gt` bound is told as this too.")
    maximum: float | None
    choices: list[str] | None
    is_runtime: bool = Field(description="It can be changed here; others are read when a master starts.")
    is_secret: bool
    is_hidden: bool = Field(description="True: it is not shown to a caller who may only look.")
    change_scope: Literal["operate", "admin"] | None = Field(
        description="What a caller needs to change it at run time; null: nobody can."
    )
    source: Literal["default", "configured", "runtime"] = Field(description="Where its value is from.")


class SettingsAnswer(Answer):
    """All settings, those of a group together."""

    settings: list[SettingView]
    version: int = Field(description="Of what was changed at run time; 0: nothing was.")


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
    __doc__="What is to change; null: back to what is configured. Leave out what is to stay.",
    **_FIELDS,
)
