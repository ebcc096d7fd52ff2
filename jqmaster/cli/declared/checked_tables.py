"""Check each table of a source by the same rules as the master."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from jqmaster.cli.console.http import rule_line

if TYPE_CHECKING:
    from pydantic import BaseModel

RequestT = TypeVar("RequestT", bound="BaseModel")
Table = Mapping[str, Any]


def checked_tables(
    kind: str,
    tables: Iterable[Table],
    model: type[RequestT],
    document_of: Callable[[str, RequestT], dict[str, Any]],
) -> tuple[dict[str, tuple[Table, dict[str, Any]]], list[str]]:
    """Return the valid tables by name, each with the document that the master would show, and the faults of the
    other tables.

    * `document_of`: makes a document from a name and a request. It may raise TypeError and JqmasterError.
    * `kind`: the kind of object, for the texts of the faults.
    """
    from pydantic import ValidationError

    from jqmaster.api.encoding.answers import encode
    from jqmaster.api.encoding.envelopes import read_map
    from jqmaster.api.encoding.json_bridge import json_to_msgpack
    from jqmaster.api.encoding.negotiation import Encoding
    from jqmaster.api.encoding.validator import ScanLimits
    from jqmaster.api.http.problems import invalid_from
    from jqmaster.errors import JqmasterError

    limits = ScanLimits(max_nesting=32, max_nodes=1_000_000)
    wanted: dict[str, tuple[Table, dict[str, Any]]] = {}
    faults: list[str] = []
    for number, table in enumerate(tables, 1):
        name = table.get("name")
        if not isinstance(name, str):
            faults.append(f"{kind} {number} has no name")
            continue
        if name in wanted:
            faults.append(f"{kind} {number} has the same name as an earlier one: {name}")
            continue
        try:
            fields = read_map(json_to_msgpack(json.dumps(table).encode()), limits=limits)
            try:
                request = model.model_validate(fields)
            except ValidationError as error:
                raise invalid_from(error, model=model) from None
            document = document_of(name, request)
        except TypeError as error:
            faults.append(f"{kind} {name}: {error}")
            continue
        except JqmasterError as error:
            rules = [rule_line(rule.loc, rule.msg) for rule in error.errors]
            faults.append("\n".join([f"{kind} {name}: {error.detail}", *rules]))
            continue
        wanted[name] = table, json.loads(encode(document, Encoding.JSON))
    return wanted, faults
