"""HTTP models of calls of agents' tools."""

from typing import Annotated

from pydantic import Field

from jqmaster.api.schemas import Request


class AgentCallRequest(Request):
    """A call of a tool that an agent is about to make."""

    tool: Annotated[str, Field(pattern="^[a-z_]{1,40}$", description="Name of the tool.")]
    subject: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="ID or name of the object that the call is about."
    )
    acts: bool = Field(
        False, description="True: the tool changes something. This requires the scope operate."
    )
    is_confirmed: bool = Field(False, description="True: the call confirms an action on many jobs.")
