"""The types in worker_sdk/protocol.py match the schemas in openapi/."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest

from jqmaster.spec.protocol_generator import NAMED_BY_THE_SDK, python_source
from tests.support.contract import document
from tests.support.each import for_each
from worker_sdk import protocol

SCHEMAS: dict[str, Any] = {
    name: schema
    for doc in ("jqmaster", "worker")
    for name, schema in document(doc)["components"]["schemas"].items()
}


@pytest.mark.req("J11")
def test_it_is_generated_from_the_committed_documents() -> None:
    assert (
        python_source([document("jqmaster"), document("worker")]) == Path(str(protocol.__file__)).read_text()
    )


TYPES = sorted(name for name in vars(protocol) if name in SCHEMAS)


def test_it_has_the_types_that_the_sdk_names_and_no_others() -> None:
    named: set[str] = set()
    for path in Path(str(protocol.__file__)).parent.rglob("*.py"):
        text = path.read_text()
        for names in re.findall(r"from worker_sdk\.protocol import (\([^)]*\)|[\w, ]+)", text):
            named.update(re.findall(r"\w+", names))
        named.update(re.findall(r"\bprotocol\.([A-Z]\w+)", text))
    named.remove("NO_EFFECT_CODES")
    assert named == set(NAMED_BY_THE_SDK)
    assert named <= set(TYPES)


@for_each("name", TYPES)
def test_every_type_has_the_fields_of_its_schema(name: str) -> None:
    schema = SCHEMAS[name]
    found = getattr(protocol, name)
    if "properties" not in schema:
        assert get_args(found), name
        return
    assert is_typeddict(found)
    assert set(get_type_hints(found)) == set(schema["properties"])
    hints = get_type_hints(found, include_extras=True)
    optional = {field for field, hint in hints.items() if "NotRequired" in str(get_origin(hint))}
    assert set(hints) - optional == set(schema.get("required", []))


def test_one_name_for_two_things_is_refused() -> None:
    with pytest.raises(ValueError, match="Thing means two things"):
        python_source(
            [{"components": {"schemas": {"Thing": {"type": kind, "enum": [1]}}}} for kind in ("a", "b")]
        )


def test_the_sdk_and_the_master_do_not_import_one_another() -> None:
    code = (
        "import sys, worker_sdk.protocol; sys.exit(any(m.split('.')[0] == 'jqmaster' for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
