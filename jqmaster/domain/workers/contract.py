"""The contract of a job name, as a worker declares it when it registers."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Contract:
    """The contract of one job name.

    * `argument_schema`: JSON Schema of the argument. None: any argument will do.
    * `options`: how jobs of the name are enqueued by default, for people.
    """

    version: str
    argument_schema: Mapping[str, Any] | None
    options: Mapping[str, Any]

    def text(self) -> str:
        """Return the contract as JSON. Equal contracts have equal texts."""
        document = {
            "version": self.version, "argument_schema": self.argument_schema, "options": self.options,
        }  # fmt: skip
        return _text(document)

    def schema_text(self) -> str:
        """Return only the schema, as JSON. Equal schemas have equal texts."""
        return _text(self.argument_schema)

    @property
    def digest(self) -> str:
        return digest_of(self.text())

    @classmethod
    def of_text(cls, text: str | bytes) -> "Contract":
        """Read the JSON that `text` gave. Fields of a later release are ignored. Raise ValueError, KeyError
        or TypeError."""
        document = json.loads(text)
        return cls(document["version"], document["argument_schema"], document["options"])


def schema_of_text(text: str) -> Mapping[str, Any]:
    """Read the JSON that `schema_text` gave."""
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def digest_of(text: str) -> str:
    """Return the digest that names a text of a contract or of a schema."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _text(document: Any) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
