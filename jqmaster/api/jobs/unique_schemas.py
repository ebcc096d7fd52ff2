"""HTTP models of uniqueness: at most one job holds a key."""

from typing import Annotated, Final

import msgspec
from pydantic import Field, field_validator, model_validator

from jqmaster.api.schemas import Answer, Request, Seconds, Timestamp
from jqmaster.domain.jobs.unique import (
    MAX_UNIQUE_KEY_BYTES,
    MAX_WAIT_S,
    TTL_S,
    WAIT_S,
    OnConflict,
    Unique,
    UniqueScope,
    unique_digest,
)

_KEY_TEXT: Final = (
    "Uniqueness key: text of at most 200 bytes. Only one job of the name can hold it. Null: the argument is "
    "the key."
)
_decoder = msgspec.msgpack.Decoder()


class _KeyRequest(Request):
    key: Annotated[str, Field(min_length=1, max_length=MAX_UNIQUE_KEY_BYTES)] | None = Field(
        None, description=_KEY_TEXT
    )

    @field_validator("key")
    @classmethod
    def _is_short(cls, value: str | None) -> str | None:
        if value is not None and len(value.encode()) > MAX_UNIQUE_KEY_BYTES:
            raise ValueError(f"must have at most {MAX_UNIQUE_KEY_BYTES} bytes")
        return value

    def _digest(self, name: str, argument: bytes) -> str:
        return unique_digest(name, self.key, argument, _decoder.decode)


class UniqueRequest(_KeyRequest):
    """A key that the job holds. Meanwhile, no other job of the same name can take the key."""

    scope: UniqueScope = Field(
        UniqueScope.UNTIL_FINISHED,
        strict=False,
        description=(
            "How long the job holds the key. until_start: until the job first starts. "
            "until_finished: until the job ends, after any retries. window: for ttl_s seconds after "
            "the push, or until the job ends if it ends later."
        ),
    )
    ttl_s: Seconds | None = Field(
        None,
        ge=TTL_S.least,
        le=TTL_S.most,
        description=(
            "Length of the window in seconds. Required with the scope window, refused with any other scope."
        ),
    )
    on_conflict: OnConflict = Field(
        OnConflict.REJECT,
        strict=False,
        description=(
            "The effect of a push while another job holds the key. reject: the answer is 409 not_unique, "
            "with the job_id of that job. existing: the answer is 200 with the ID of that job and "
            "duplicate: true. replace: that job takes the content of this push, and the answer is 200 with "
            "its ID and replaced: true. If that job has already started, replace acts like existing."
        ),
    )

    @model_validator(mode="after")
    def _has_window(self) -> "UniqueRequest":
        if (self.scope is UniqueScope.WINDOW) != (self.ttl_s is not None):
            raise ValueError(
                "ttl_s is required with the scope window"
                if self.ttl_s is None
                else "ttl_s is allowed only with the scope window"
            )
        return self

    def to_unique(self, name: str, argument: bytes) -> Unique:
        return Unique(
            self._digest(name, argument),
            self.key,
            self.scope,
            self.on_conflict,
            round((self.ttl_s or 0) * 1000),
        )


class DebounceRequest(_KeyRequest):
    """The job waits. Each further push with the key replaces the content of the job and restarts the wait."""

    wait_s: Seconds = Field(
        ge=WAIT_S.least, le=WAIT_S.most, description="Seconds to wait after the last push with the key."
    )
    max_s: Seconds | None = Field(
        None,
        ge=MAX_WAIT_S.least,
        le=MAX_WAIT_S.most,
        description=(
            "Maximum delay in seconds, counted from the first push. At least wait_s. Null: further pushes "
            "can delay the job without a bound."
        ),
    )

    @model_validator(mode="after")
    def _is_bounded(self) -> "DebounceRequest":
        if self.max_s is not None and self.max_s < self.wait_s:
            raise ValueError("max_s must be at least wait_s")
        return self

    @property
    def wait_ms(self) -> int:
        return round(self.wait_s * 1000)

    def to_unique(self, name: str, argument: bytes) -> Unique:
        return Unique.debounce(
            self._digest(name, argument),
            self.key,
            wait_ms=self.wait_ms,
            max_ms=round((self.max_s or 0) * 1000),
        )


class DebounceView(Answer):
    """How pushes with the key delay the job."""

    wait_s: float
    max_s: float | None


class UniqueView(Answer):
    """The uniqueness key that the job takes while it is unfinished."""

    key: str | None = Field(
        description=(
            "The key as pushed, or `[hidden]` if the caller may not see job content. Null: the "
            "argument is the key."
        )
    )
    scope: UniqueScope
    until: Timestamp | None = Field(description="End of the window.")
    on_conflict: OnConflict
    debounce: DebounceView | None = Field(description="Set if the job is debounced.")
