"""Render the chart with Helm's own engine. `python -m tools.chart.golden` writes the golden renderings and the
manifests for kustomize. It runs in the environment of `make test-chart`."""

import atexit
import json
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

import helm_python as helm
import yaml

from tools.chart import files

# This text replaces content from other folders of the repository, which has its own tests.
_ELSEWHERE: Final = "(the content of deploy/{})"


@cache
def chart() -> Path:
    """Return a copy of the chart with files in place of links, because Helm's engine reports links at each load."""
    folder = tempfile.mkdtemp(prefix="chart-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(shutil.copytree(files.CHART, Path(folder) / files.CHART.name))


def render(name: str) -> dict[str, str]:
    """Render the chart with a values file. Return the manifests by the paths of their templates."""
    values = yaml.safe_load(files.cases()[name].read_text("utf-8"))
    with helm.Chart.load(str(chart())) as loaded:
        made = loaded.render(values, name=files.RELEASE, namespace=files.NAMESPACE)
    return {path: text for path, text in made.items() if not path.endswith("NOTES.txt")}


def documents(name: str) -> list[dict[str, Any]]:
    """Return the objects of a rendering, in the order of the templates."""
    return [one for text in render(name).values() for one in yaml.safe_load_all(text) if one]


def golden_text(name: str) -> str:
    """Return the golden rendering: the objects, without comments and without the content of other folders."""
    return files.head(files.cases()[name]) + _dumped(_shortened(documents(name)))


def kustomize_texts(name: str) -> dict[Path, str]:
    """Return the files of an overlay by path: what Helm would install, without the parts that only Helm understands."""
    folder = files.KUSTOMIZE / name
    objects = [one for one in documents(name) if _is_plain(one)]
    for one in objects:
        _forget_helm(one)
    head = files.head(files.cases()[name])
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": files.NAMESPACE,
        "resources": ["jqmaster.yaml"],
    }
    return {
        folder / "jqmaster.yaml": head + _dumped(objects),
        folder / "kustomization.yaml": head + yaml.safe_dump(kustomization, sort_keys=False),
    }


def texts() -> dict[Path, str]:
    """Return the texts of all files that are rendered from the chart, by path."""
    made = {files.golden_of(name): golden_text(name) for name in files.cases()}
    for name in files.KUSTOMIZED:
        made |= kustomize_texts(name)
    return made


def _shortened(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the objects without the names of alert rules and dashboards. So a new rule or dashboard does not change
    the golden renderings."""
    kept: list[dict[str, Any]] = []
    for one in objects:
        if one["kind"] == "PrometheusRule":
            if kept and kept[-1]["kind"] == one["kind"]:
                continue
            one["spec"] = {"groups": [], "x-content": _ELSEWHERE.format("prometheus")}
        if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("-dashboard"):
            one["data"] = {"dashboards": _ELSEWHERE.format("grafana")}
        kept.append(one)
    return kept


def _is_plain(one: dict[str, Any]) -> bool:
    is_hook = "helm.sh/hook" in one["metadata"].get("annotations", {})
    is_elsewhere = one["kind"] == "PrometheusRule" or one["metadata"]["name"].endswith("-dashboard")
    return not is_hook and not is_elsewhere


def _forget_helm(one: dict[str, Any]) -> None:
    labels = one["metadata"]["labels"]
    labels.pop("helm.sh/chart")
    labels["app.kubernetes.io/managed-by"] = "kustomize"
    # Kustomize sets the namespace of each object. It does not change addresses that contain a namespace.
    assert "namespace" not in one["metadata"]


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _dumped(objects: list[dict[str, Any]]) -> str:
    # Copy the objects through JSON. Otherwise, the YAML would contain anchors for values that two objects share.
    plain = json.loads(json.dumps(objects))
    return "---\n" + "---\n".join(yaml.dump(one, Dumper=_Dumper, sort_keys=False, width=120) for one in plain)


def main() -> None:
    """Write the files that have changed."""
    for path, text in texts().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"wrote {path.relative_to(files.ROOT)}\n")


if __name__ == "__main__":
    main()
