"""Routes for agents' tools. The tools themselves are behind `/mcp`, which the OpenAPI document does not describe."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import agent_schemas, agents
from jqmaster.domain.identity.access import Scope
from jqmaster.service.operations.agent_turns import MAX_PER_MINUTE

_CALL_TEXT: Final = (
    "`jqmaster mcp` and `/mcp` make this call before each call of a tool. It writes an entry `agent.call` to the audit "
    f"log. A caller may make {MAX_PER_MINUTE} of them within a minute at each master."
)

OPERATIONS: Final = [
    Operation("POST", "/api/agent-calls", agents.record_call, Scope.READ, "Record a call of an agent's tool",
              "operations", {204: None}, agent_schemas.AgentCallRequest, problems=(413, 429, 503), text=_CALL_TEXT),
]  # fmt: skip
