"""The contract of a task, which a worker reports to masters."""

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from worker_sdk.pusher.unique import Debounce, Unique
from worker_sdk.tasks.schema import schema_of_parameters

if TYPE_CHECKING:
    from worker_sdk.tasks.task import Task


def contract_of(task: "Task[..., Any]") -> Mapping[str, Any]:
    """Return a map with `version`, `argument_schema` and `options`. If the task has no version, the version is derived
    from the schema, and changes when the schema changes."""
    options = {option: _plain(value) for option, value in task.options.items()}
    if task.seal is not None:
        # Describe no arguments: they are sealed, so masters cannot check them.
        return {"version": task.version or "sealed", "options": options}
    signature = task.signature
    types = task.codec.types
    optional = {name: signature.default_of(name) for name in types if signature.has_default(name)}
    defaults = {name: value for name, value in optional.items() if name not in signature.inputs}
    schema = schema_of_parameters(types, defaults, required=[name for name in types if name not in optional])
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
    return {
        "version": task.version or hashlib.blake2b(text.encode(), digest_size=4).hexdigest(),
        "argument_schema": schema,
        "options": options,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Unique | Debounce):
        return value.to_wire()
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return value if isinstance(value, str | int | float | None) else list(value)
