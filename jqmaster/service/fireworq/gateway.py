"""The services of the Fireworq gateway."""

from dataclasses import dataclass

from jqmaster.service.fireworq.pushes import FireworqPushes
from jqmaster.service.fireworq.queues import FireworqQueues


@dataclass(frozen=True, slots=True)
class FireworqGateway:
    """The services that only the gateway uses. They exist only if a prefix is set."""

    queues: FireworqQueues
    pushes: FireworqPushes
