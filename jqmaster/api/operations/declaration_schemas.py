"""HTTP models of declarations."""

from typing import Annotated, Final

from pydantic import Field

from jqmaster.api.schemas import SINCE, Answer, Request, Timestamp

SOURCE_PATTERN: Final = r"^[A-Za-z0-9_.:\-]{1,100}$"
_MOST: Final = 10_000

_Names = dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=100)]]


class DeclarationRequest(Request):
    """The declarations of a source. If all maps are empty, the source is removed."""

    constraints: _Names = Field(
        default_factory=dict, max_length=_MOST, description="ETags of its constraints, by name."
    )
    calendars: _Names = Field(
        default_factory=dict, max_length=_MOST, description="ETags of its calendars, by name."
    )
    definitions: _Names = Field(
        default_factory=dict, max_length=_MOST, description="ETags of its definitions, by name."
    )


class DeclarationView(Answer):
    """The last declarations of a source."""

    source: str
    constraints: dict[str, str] = Field(
        description=(
            "By name: the ETag of each constraint right after it was applied. If the current ETag differs, "
            "somebody has changed the constraint since then."
        )
    )
    calendars: dict[str, str] = Field(
        description=("By name: the ETag of each calendar right after it was applied."),
        json_schema_extra=SINCE,
    )
    definitions: dict[str, str] = Field(
        description=("By name: the ETag of each definition right after it was applied.")
    )
    applied_at: Timestamp
    applied_by: str


class DeclarationList(Answer):
    """All sources, sorted by name."""

    declarations: list[DeclarationView]
