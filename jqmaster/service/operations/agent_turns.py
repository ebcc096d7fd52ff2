"""Limits how often a caller's agents may call tools."""

from typing import Final

from jqmaster.clock import Clock
from jqmaster.domain.identity.quota import Quota
from jqmaster.errors import RateLimitedError

# Maximum number of calls of one caller per minute. Answering a person's questions takes a dozen calls. An agent that is
# stuck in a loop makes hundreds.
MAX_PER_MINUTE: Final = 120


class AgentTurns:
    """Counts the calls that each caller's agents make at this master."""

    def __init__(self, clock: Clock) -> None:
        self._asked = Quota()
        self._clock = clock

    def take(self, who: str) -> None:
        """Count a call. Raise RateLimitedError if the caller has used up the calls of this minute."""
        now_s = self._clock.monotonic_s()
        if self._asked.count(who, now_s) >= MAX_PER_MINUTE:
            raise RateLimitedError(
                f"more than {MAX_PER_MINUTE} calls of agents' tools within a minute; wait a moment",
                code="too_many_agent_calls",
                retry_after_s=self._asked.left_s(now_s),
            )
        self._asked.add(who, now_s)
