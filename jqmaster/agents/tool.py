"""Tools: their texts, their arguments and their calls of a master's API."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

import jsonschema_rs

from jqmaster.agents.confirmation import VALID_S, Confirmations, Foreseen
from jqmaster.agents.master import MasterCalls

CONFIRM: Final[Mapping[str, Any]] = {
    "type": "string",
    "maxLength": 400,
    "description": (
        "Leave this argument out in the first call. The answer tells what would be done, and to "
        "how many jobs. Show the answer to the person who decides. Then call again with the "
        f"answer's token here, within {VALID_S // 60} minutes."
    ),
}
NEXT: Final[Mapping[str, Any]] = {
    "type": "string",
    "maxLength": 2_000,
    "description": "`next` of the previous answer. Do not change the other arguments.",
}


class ArgumentError(Exception):
    """The arguments of the call are not valid."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool by one caller."""

    tool: str
    arguments: Mapping[str, Any]
    master: MasterCalls
    confirmations: Confirmations

    def get(self, name: str, default: Any = None) -> Any:
        """Return an argument, or the default."""
        return self.arguments.get(name, default)

    async def confirmed(
        self,
        foresee: Callable[[], Awaitable[Foreseen]],
        act: Callable[[Foreseen, int | None], Awaitable[dict[str, Any]]],
        **more: Any,
    ) -> dict[str, Any]:
        """Return a preview and a token, or act if the call contains that token. Raise ConfirmationError if the
        token does not confirm the call.

        * `act`: gets the present preview and the number of confirmed jobs, or None if only a lower bound was
          confirmed.
        * `more`: further fields of the preview.
        """
        foreseen = await foresee()
        token = self.arguments.get("confirm")
        if token is None:
            return {
                "nothing_done_yet": foreseen.text,
                "jobs": foreseen.count,
                "is_exact": foreseen.is_exact,
                **more,
                "confirm": self.confirmations.token(self.tool, self.arguments, foreseen),
                "confirm_within_s": VALID_S,
            }
        return await act(foreseen, self.confirmations.check(token, self.tool, self.arguments, foreseen))


@dataclass(frozen=True)
class AgentTool:
    """A tool.

    * `scope`: the right that it needs.
    * `subject`: the argument that the audit log names.
    * `text`: the description for the model.
    * `title`: the name for the user of the model.
    """

    name: str
    title: str
    text: str
    run: Callable[[ToolCall], Awaitable[dict[str, Any]]]
    properties: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    scope: Literal["read", "operate"] = "read"
    subject: str = ""
    is_destructive: bool = False

    @property
    def is_read_only(self) -> bool:
        return self.scope == "read"

    @property
    def is_confirmed(self) -> bool:
        """Return whether the tool may act on more than one job. Such a tool asks for a confirmation."""
        return "confirm" in self.properties

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }

    @cached_property
    def _validator(self) -> Any:
        return jsonschema_rs.validator_for(self.schema)

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise an ArgumentError that names each invalid argument and the rule that it breaks."""
        errors = [
            f"{'.'.join(map(str, error.instance_path)) or 'arguments'}: {error.message}"
            for error in self._validator.iter_errors(dict(arguments))
        ]
        if errors:
            raise ArgumentError("; ".join(errors)[:1_000])

    def subject_of(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the subject of the call, as the audit log shows it."""
        value = arguments.get(self.subject)
        return None if value is None else str(value)[:200]
