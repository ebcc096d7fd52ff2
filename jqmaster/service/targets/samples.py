"""Sends samples to targets. A sample is a single request without a job. It shows people the request and the answer."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from jqmaster.domain.targets.target import HttpTarget
from jqmaster.service.targets.reader import TargetReader


@dataclass(frozen=True, slots=True)
class Sample:
    """The job that a sample pretends to deliver. `argument`: encoded MessagePack."""

    name: str
    argument: bytes


@dataclass(frozen=True, slots=True)
class Exchange:
    """The request of a sample, and its outcome.

    * `headers`: the headers of the request, without credentials.
    * `status`: the status of the answer. 0: no answer came.
    * `body`: the beginning of the answer's body.
    * `meaning`: see `DeliveryResult`.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    request_body: str
    status: int
    answer_headers: Mapping[str, str]
    body: str
    took_ms: int
    meaning: str
    detail: str


SendSample = Callable[[HttpTarget, Sample], Awaitable[Exchange]]


class TargetSamples:
    """Sends samples to targets. `send`: sends the request of a sample from this master. Methods raise what the store
    raises."""

    def __init__(self, targets: TargetReader, send: SendSample) -> None:
        self._targets = targets
        self._send = send

    async def send(self, name: str, sample: Sample) -> Exchange:
        """Send a sample to a target. Raise NotFoundError."""
        stored = await self._targets.stored(name)
        return await self._send(stored.target, sample)
