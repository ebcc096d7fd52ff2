"""Calls of agents' tools. Each call leaves an entry in the audit log, and the number of calls per caller is limited."""

from jqmaster.api.http.endpoint import Call, Reply
from jqmaster.api.operations.agent_schemas import AgentCallRequest
from jqmaster.domain.identity.access import Scope
from jqmaster.errors import ForbiddenError
from jqmaster.store.identity.audit import encode_entry


async def record_call(call: Call) -> Reply:
    request = await call.read(AgentCallRequest)
    if request.acts and not call.may(Scope.OPERATE):
        raise ForbiddenError(f"the caller does not have the scope {Scope.OPERATE}")
    call.services.agent_turns.take(call.who)
    entry = encode_entry(
        who=call.who,
        action="agent.call",
        target=request.subject or request.tool,
        before=None,
        after={"tool": request.tool, "is_confirmed": request.is_confirmed},
    )
    await call.services.audit_writer.write(entry)
    return Reply(204)
