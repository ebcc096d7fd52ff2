"""The TypeScript package agrees with the rest of the repository: release, licence, lock, types of the wire."""

import json
import re
from typing import Any

from jqmaster.spec.typescript_generator import NAMED_BY_THE_PACKAGE, typescript_source
from tests.clients.typescript import PACKAGE, manifest
from worker_sdk.transport.release import VERSION


def test_it_has_the_release_and_the_licence_of_the_other_packages() -> None:
    found = manifest()
    assert found["version"] == VERSION
    assert (found["license"], found["type"]) == ("Apache-2.0", "module")
    assert (PACKAGE / "LICENSE").read_bytes() == (PACKAGE.parents[1] / "LICENSE").read_bytes()
    assert [*found["dependencies"]] == ["@msgpack/msgpack"]


def test_its_lock_names_every_package_with_its_digest_and_no_index() -> None:
    lock: dict[str, Any] = json.loads((PACKAGE / "package-lock.json").read_text())
    locked = {name: entry for name, entry in lock["packages"].items() if name}
    assert [name for name, entry in locked.items() if "resolved" in entry] == []
    assert [name for name, entry in locked.items() if "integrity" not in entry] == []
    own = lock["packages"][""]
    assert {field: own[field] for field in ("version", "dependencies", "devDependencies")} == {
        field: manifest()[field] for field in ("version", "dependencies", "devDependencies")
    }


def test_the_types_of_the_wire_are_those_that_its_modules_name() -> None:
    named: set[str] = set()
    for path in (PACKAGE / "src").rglob("*.ts"):
        for names in re.findall(
            r"(?:import|export)(?: type)? \{([^}]*)\} from \"[./]*(?:wire/)?protocol\.js\"", path.read_text()
        ):
            named.update(name.split()[-1] for name in names.split(",") if name.strip())
    generated = set(
        re.findall(
            r"^export (?:interface|type|const) (\w+)", (PACKAGE / "src/wire/protocol.ts").read_text(), re.M
        )
    )
    assert named <= generated
    assert set(NAMED_BY_THE_PACKAGE) <= named


def test_a_schema_becomes_a_type() -> None:
    documents = [
        {
            "components": {
                "schemas": {
                    "A": {
                        "description": "Ends */ here.",
                        "properties": {
                            "kind": {"const": "a"},
                            "code": {"anyOf": [{"$ref": "#/x/B"}, {"type": "string"}]},
                            "many": {
                                "type": "array",
                                "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                            },
                            "by": {"type": "object", "additionalProperties": {"type": "number"}},
                            "any": {"anyOf": [{}, {"type": "null"}]},
                        },
                        "required": ["kind"],
                    },
                    "B": {"enum": ["x", "y"]},
                    "C": {"enum": [f"value_{n}" for n in range(20)]},
                }
            }
        }
    ]
    text = typescript_source(documents, ["A", "C"])
    for part in (
        "/** Ends * / here. */\nexport interface A {",
        '  kind: "a";',
        "  code?: B | (string & {});",
        "  many?: (number | null)[];",
        "  by?: Record<string, number>;",
        "  any?: unknown;",
        'export type B = "x" | "y";',
        'export type C =\n  | "value_0"',
    ):
        assert part in text, part
