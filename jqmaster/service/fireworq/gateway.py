"""The services of the Fireworq gateway."""

from dataclasses import dataclass

from jqmaster.service.fireworq.pushes import FireworqPushes
from jqmaster.service.fireworq.queues import FireworqQueues


@dataclass(frozen=True, slots=True)
class FireworqGateway:
    """The services that only the Fireworq gateway uses. They exist only if the settings give the gateway a prefix."""

    queues: FireworqQueues
    pushes: FireworqPushes
