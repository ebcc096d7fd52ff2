"""Reads the golden renderings of the Helm chart."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

from tests.support.contract import QUICK_LOADER
from tools.chart import files

NAMES = sorted(files.cases())

Object = dict[str, Any]


@cache
def rendering(name: str) -> tuple[Object, ...]:
    """Return the objects of a golden rendering."""
    return tuple(one for one in yaml.load_all(files.golden_of(name).read_text("utf-8"), QUICK_LOADER) if one)


def of_kind(name: str, *kinds: str) -> list[Object]:
    return [one for one in rendering(name) if one["kind"] in kinds]


@dataclass(frozen=True)
class Pod:
    """The pod of a workload, or of `helm test`."""

    owner: Object
    labels: Mapping[str, str]
    spec: Object

    @property
    def name(self) -> str:
        return str(self.owner["metadata"]["name"])

    @property
    def containers(self) -> list[Object]:
        """Its containers, including the init containers."""
        return [*self.spec.get("initContainers", ()), *self.spec["containers"]]

    @property
    def component(self) -> str:
        return self.labels["app.kubernetes.io/component"]

    @property
    def ports(self) -> dict[str, int]:
        return {p["name"]: p["containerPort"] for one in self.containers for p in one.get("ports", ())}

    def volumes(self) -> list[Object]:
        claimed = self.owner["spec"].get("volumeClaimTemplates", ())
        return [*self.spec["volumes"], *({"name": one["metadata"]["name"], "claim": one} for one in claimed)]


def pods(name: str) -> list[Pod]:
    """Return the pods of a rendering, one for each object that makes some."""
    return list(_pods(name))


def _pods(name: str) -> Iterator[Pod]:
    for one in rendering(name):
        if one["kind"] in ("Deployment", "StatefulSet"):
            template = one["spec"]["template"]
        elif one["kind"] == "ScaledJob":
            template = one["spec"]["jobTargetRef"]["template"]
        elif one["kind"] == "Pod":
            template = one
        else:
            continue
        yield Pod(one, template["metadata"]["labels"], template["spec"])


def matches(selector: Object, labels: Mapping[str, str]) -> bool:
    """Return whether a label selector of Kubernetes takes these labels."""
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions", ()):
        assert expression["operator"] == "In", expression
        if labels.get(expression["key"]) not in expression["values"]:
            return False
    return True
