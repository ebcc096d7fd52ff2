"""Routes for agents' tools. The tools themselves are at `/mcp`. The OpenAPI document does not describe that path."""

from typing import Final

from jqmaster.api.http.endpoint import Operation
from jqmaster.api.operations import agent_schemas, agents
from jqmaster.domain.identity.access import Scope
from jqmaster.service.operations.agent_turns import MAX_PER_MINUTE

_CALL_TEXT: Final = (
    "`jqmaster mcp` and `/mcp` make this call before each call of a tool. It writes an entry `agent.call` "
    f"to the audit log. Each master accepts {MAX_PER_MINUTE} such calls of a caller within a minute."
)

OPERATIONS: Final = [
    Operation("POST", "/api/agent-calls", agents.record_call, Scope.READ, "Record a call of an agent's tool",
              "operations", {204: None}, agent_schemas.AgentCallRequest, problems=(413, 429, 503), text=_CALL_TEXT),
]  # fmt: skip
