"""Fill parameters of a task with the results of the predecessors of its job."""

from typing import Any

from worker_sdk.tasks.codec import Codec
from worker_sdk.tasks.signature import Signature
from worker_sdk.worker.inputs import Input, Inputs


class InputParameters:
    """The parameters of one task with the default `INPUT` or `INPUTS`."""

    def __init__(self, signature: Signature, codec: Codec) -> None:
        self._parameters = signature.inputs
        self._codec = codec

    def fill(self, arguments: dict[str, Any], inputs: Inputs) -> None:
        """Add the results of predecessors for parameters that the call omits. Raise InvalidArgument if a result does
        not fit the annotation, and InputMissing if it does not exist."""
        for name, default in self._parameters.items():
            if name in arguments:
                continue
            if default.takes_all:
                value: Any = [_value_of(one) for one in inputs]
            elif len(inputs) == 1:
                value = _value_of(inputs[0])
            else:
                raise self._codec.unfit(name, _not_one(len(inputs)))
            arguments[name] = self._codec.decode_argument(name, value)


def _value_of(one: Input) -> Any:
    # Use None for a predecessor that failed. This happens only if the job runs whatever the outcome of its
    # predecessors.
    return one.result if one.is_success else None


def _not_one(count: int) -> str:
    if count == 0:
        return "is missing: no value was given, and the job waited for no other job"
    return f"takes the result of one job, but this job waited for {count}"
