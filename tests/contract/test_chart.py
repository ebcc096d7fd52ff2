"""The golden renderings of the Helm chart: they are those of today's chart, and what they name exists. Helm is not
needed here; `make test-chart` renders anew, validates and compares."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema_rs
import pytest
import typer.main
import yaml

from jqmaster.api.operations.stats_schemas import DemandView
from jqmaster.api.routes import OPERATIONS
from jqmaster.cli.root import app
from jqmaster.config import Settings
from tests.support import chart
from tests.support.chart import NAMES, Pod, matches, of_kind, pods, rendering
from tests.support.each import for_each
from tools.chart import files, schema
from worker_sdk.transport.release import VERSION
from worker_sdk.transport.variables import CLIENT_NAMES
from worker_sdk.worker import asgi, membership, node

ROOT_COMMAND = typer.main.get_command(app)
EACH = pytest.mark.parametrize("name", NAMES)
EACH_POD = pytest.mark.parametrize(
    ("name", "pod"), [pytest.param(n, p, id=f"{n}-{p.name}") for n in NAMES for p in pods(n)]
)
VALUES: dict[str, Any] = yaml.safe_load((files.CHART / "values.yaml").read_text())


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one for one in container["env"]}


# --- they are fresh


@EACH
def test_a_golden_rendering_is_that_of_this_chart(name: str) -> None:
    made_from = files.source_of(files.golden_of(name).read_text())
    assert made_from == files.digest(files.cases()[name]), "the chart has changed: run `make chart`"


@pytest.mark.parametrize("name", files.KUSTOMIZED)
def test_an_overlay_for_kustomize_is_the_rendering_without_helm(name: str) -> None:
    folder = files.KUSTOMIZE / name
    objects = list(yaml.safe_load_all((folder / "jqmaster.yaml").read_text()))
    expected = []
    for one in json.loads(json.dumps(rendering(name))):
        is_hook = "helm.sh/hook" in one["metadata"].get("annotations", {})
        if is_hook or one["kind"] == "PrometheusRule" or one["metadata"]["name"].endswith("-dashboard"):
            continue
        del one["metadata"]["labels"]["helm.sh/chart"]
        one["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "kustomize"
        expected.append(one)
    assert objects == expected, "run `make chart`"
    for file in ("jqmaster.yaml", "kustomization.yaml"):
        assert files.source_of((folder / file).read_text()) == files.digest(files.cases()[name])


def test_there_is_no_golden_rendering_without_values() -> None:
    assert sorted(file.stem for file in files.GOLDEN.glob("*")) == NAMES
    assert sorted(folder.name for folder in files.KUSTOMIZE.iterdir()) == sorted(files.KUSTOMIZED)


def test_the_chart_has_the_version_of_the_project() -> None:
    about = yaml.safe_load((files.CHART / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (VERSION, VERSION)


def test_rules_and_dashboards_are_links_to_those_of_the_repository() -> None:
    for name in ("prometheus", "grafana"):
        link = files.CHART / "files" / name
        assert link.is_symlink()
        assert link.resolve() == files.ROOT / "deploy" / name


# --- the schema


def test_the_schema_is_that_of_the_settings() -> None:
    assert files.SCHEMA.read_text() == schema.text(), "run `make docs`"


@pytest.mark.parametrize("file", [files.CHART / "values.yaml", *files.cases().values()], ids=lambda f: f.name)
def test_the_schema_takes_the_values(file: Path) -> None:
    validator = jsonschema_rs.validator_for(schema.schema())
    assert [error.message for error in validator.iter_errors(yaml.safe_load(file.read_text()))] == []


def _places(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of all maps that have keys of the chart's own."""
    if not isinstance(value, dict) or (path and not value):
        return []
    if path[-1:] in {("resources",), ("labels",), ("annotations",)}:
        return []
    return [path, *(place for key, inner in value.items() for place in _places(inner, (*path, key)))]


@for_each("path", [*_places(VALUES), ("masters", "settings"), ("masters", "secretSettings")],
    ids=lambda path: ".".join(path) or "top")  # fmt: skip
def test_the_schema_refuses_a_misspelt_value_anywhere(path: tuple[str, ...]) -> None:
    values = json.loads(json.dumps(VALUES))
    place = values
    for key in path:
        place = place[key]
    place["replicsa"] = 3
    assert not jsonschema_rs.validator_for(schema.schema()).is_valid(values)


def test_the_schema_refuses_secrets_among_the_settings() -> None:
    validator = jsonschema_rs.validator_for(schema.schema())
    secret = [name for name in Settings.model_fields if schema.is_secret(name)]
    assert {"redis_url", "tokens", "smtp_url", "webhook_secrets"} <= set(secret)
    for name in secret:
        assert not validator.is_valid({"masters": {"settings": {name: "x"}}}), name


def test_templates_use_only_values_that_exist() -> None:
    for file in files.CHART.rglob("templates/**/*"):
        if not file.is_file():
            continue
        for path in re.findall(r"\.Values\.([A-Za-z.]+)", file.read_text()):
            place: Any = VALUES
            for key in path.rstrip(".").split("."):
                assert key in place, f"{file.name}: {path}"
                place = place[key]


# --- what containers run


def _command(words: list[str]) -> Any:
    """Parse the words after `jqmaster`, and return the context. Raise an error if there is no such command line."""
    command: Any = ROOT_COMMAND
    context = command.context_class(command, info_name="jqmaster")
    found = command.get_command(context, words[0])
    assert found is not None, words
    return found.make_context(words[0], list(words[1:]), parent=context)


@EACH_POD
def test_every_container_runs_a_command_that_exists(name: str, pod: Pod) -> None:
    for container in pod.containers:
        words = [*container["command"], *container.get("args", ())]
        assert words[0] == "jqmaster"
        _command(words[1:])


@EACH_POD
def test_every_variable_is_one_that_its_program_reads(name: str, pod: Pod) -> None:
    for container in pod.containers:
        known: set[str] = set(CLIENT_NAMES)
        if container["command"] == ["jqmaster", "serve"]:
            known = {field.upper() for field in Settings.model_fields} | {"CONFIG"}
        ours = {one.removeprefix("JQMASTER_") for one in env_of(container) if one.startswith("JQMASTER_")}
        assert ours <= known


@EACH
def test_a_master_accepts_its_settings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = {
        "JQMASTER_REDIS_URL": "rediss://user:password@store:6379/0",
        "JQMASTER_WEBHOOK_SECRETS": "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5",
    }
    [master] = [pod for pod in pods(name) if pod.component == "master"]
    [container] = master.containers
    for variable, one in env_of(container).items():
        value = one.get("value")
        if value is None and "secretKeyRef" in one["valueFrom"]:
            value = samples[variable]
        elif value is None:
            value = one["valueFrom"]["fieldRef"]["fieldPath"]
        monkeypatch.setenv(variable, value.replace("$(POD_IP)", "10.0.0.7"))
    [config] = [one for one in of_kind(name, "ConfigMap") if one["metadata"]["name"].endswith("-config")]
    file = tmp_path / "jqmaster.toml"
    file.write_text(config["data"]["jqmaster.toml"])
    assert env_of(container)["JQMASTER_CONFIG"]["value"] == "/etc/jqmaster/config/jqmaster.toml"
    monkeypatch.setenv("JQMASTER_CONFIG", str(file))
    settings = Settings()
    assert (settings.host, settings.port) == ("0.0.0.0", master.ports["http"])
    assert settings.advertised_url in ("http://10.0.0.7:8080", "https://10.0.0.7:8080")
    given = yaml.safe_load(files.cases()[name].read_text()).get("masters", {}).get("settings", {})
    assert tomllib.loads(file.read_text()) == given
    assert settings.node_id == "spec.nodeName"


@EACH_POD
def test_every_variable_that_another_names_stands_before_it(name: str, pod: Pod) -> None:
    for container in pod.containers:
        seen: set[str] = set()
        for one in container["env"]:
            assert set(re.findall(r"\$\((\w+)\)", one.get("value", ""))) <= seen
            seen.add(one["name"])


@EACH_POD
@pytest.mark.req("D27")
def test_every_probe_asks_what_its_container_answers(name: str, pod: Pod) -> None:
    routes = {
        "http": {operation.path for operation in OPERATIONS if operation.method == "GET"},
        "jobs": {path for path, method in asgi._METHODS.items() if method == "GET"},
    }
    for container in pod.containers:
        ports = {port["name"] for port in container.get("ports", ())}
        has_tls = any(
            variable.endswith(("_TLS_CERTFILE", "WORKER_CERTFILE")) for variable in env_of(container)
        )
        wants_certificate = any("CLIENT_CAFILE" in variable and "JQMASTER_CLIENT_" not in variable
            for variable in env_of(container))  # fmt: skip
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(kind)
            if probe is None:
                continue
            if "httpGet" in probe:
                asked = probe["httpGet"]
                assert asked["port"] in ports
                assert asked["path"] in routes[asked["port"]]
                assert asked["scheme"] == ("HTTPS" if has_tls else "HTTP")
                # The kubelet presents no certificate.
                assert not wants_certificate
            elif "exec" in probe:
                assert probe["exec"]["command"][:2] == ["jqmaster", "healthcheck"]
                _command(probe["exec"]["command"][1:])
            else:
                assert probe["tcpSocket"]["port"] in ports


@EACH_POD
@pytest.mark.req("D27")
def test_every_pod_is_given_the_time_that_it_takes_to_stop(name: str, pod: Pod) -> None:
    grace_s = pod.spec["terminationGracePeriodSeconds"]
    for container in pod.containers:
        pause_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        if pod.component == "master":
            assert grace_s >= pause_s + float(env_of(container)["JQMASTER_LINGER_S"]["value"]) + 60
        elif pod.component == "worker":
            words = [*container["command"][1:], *container["args"]]
            given_s = _command(words).params["grace"]
            leaving_s = node._FLUSH_S + membership._STOPPED_S + membership._LEAVE_S + node._LOGS_S
            assert grace_s >= pause_s + given_s + leaving_s


# --- pods


@EACH_POD
@pytest.mark.req("D18", "D27")
def test_every_pod_fits_the_standard_restricted(name: str, pod: Pod) -> None:
    spec = pod.spec
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 10001
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert spec["automountServiceAccountToken"] is False
    # A Service named jqmaster would set JQMASTER_PORT to tcp://….
    assert spec["enableServiceLinks"] is False
    for container in pod.containers:
        context = container["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert not {"privileged", "runAsUser"} & set(context)
        assert all("hostPort" not in port for port in container.get("ports", ()))
        assert "memory" in container["resources"]["limits"]
    for volume in pod.volumes():
        assert set(volume) - {"name"} <= {"configMap", "emptyDir", "secret", "claim"}


@EACH_POD
def test_every_mount_has_its_volume(name: str, pod: Pod) -> None:
    mounted = {mount["name"]: mount["mountPath"] for one in pod.containers for mount in one["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in pod.volumes()}
    for container in pod.containers:
        places = tuple(f"{mount['mountPath']}/" for mount in container["volumeMounts"])
        for variable, one in env_of(container).items():
            if one.get("value", "").startswith("/"):
                assert one["value"].startswith(places), variable
        # A file that is mounted alone does not follow its Secret.
        assert not any("subPath" in mount for mount in container["volumeMounts"])


@EACH
@pytest.mark.req("D18")
def test_no_secret_is_in_the_rendering(name: str) -> None:
    assert of_kind(name, "Secret") == []
    secret = {f"JQMASTER_{one.upper()}" for one in Settings.model_fields if schema.is_secret(one)}
    for pod in pods(name):
        for container in pod.containers:
            for variable, one in env_of(container).items():
                if variable in {*secret, "JQMASTER_TOKEN"}:
                    assert set(one) == {"name", "valueFrom"}
    for config in of_kind(name, "ConfigMap"):
        for text in config["data"].values():
            assert not re.search(r"(?i)(token|password|secret)s? *=", text)


@EACH_POD
def test_every_image_is_pinned(name: str, pod: Pod) -> None:
    for container in pod.containers:
        assert re.search(rf"(:{re.escape(VERSION)}|:12|@sha256:[0-9a-f]{{64}})$", container["image"])


# --- selectors and addresses


@EACH
def test_every_selector_takes_a_pod(name: str) -> None:
    ours = pods(name)
    for one in rendering(name):
        spec = one.get("spec", {})
        if one["kind"] in ("Deployment", "StatefulSet"):
            [own] = [pod for pod in ours if pod.owner is one]
            selectors = [spec["selector"]]
            selectors += [spread["labelSelector"] for spread in own.spec["topologySpreadConstraints"]]
            assert all(matches(selector, own.labels) for selector in selectors)
            assert [pod.name for pod in ours if matches(spec["selector"], pod.labels)] == [own.name]
        elif one["kind"] == "Service":
            found = [pod for pod in ours if matches({"matchLabels": spec["selector"]}, pod.labels)]
            assert found
            for port in spec["ports"]:
                assert all(port["targetPort"] in pod.ports for pod in found)
        elif one["kind"] in ("PodDisruptionBudget", "PodMonitor"):
            found = [pod for pod in ours if matches(spec["selector"], pod.labels)]
            assert len(found) == 1
            for endpoint in spec.get("podMetricsEndpoints", ()):
                assert endpoint["port"] in found[0].ports
                assert any(o.path == endpoint["path"] and o.method == "GET" for o in OPERATIONS)
        elif one["kind"] in ("ScaledObject", "HorizontalPodAutoscaler"):
            target = spec["scaleTargetRef"]
            [scaled] = [
                o
                for o in rendering(name)
                if (o["kind"], o["metadata"]["name"]) == (target["kind"], target["name"])
            ]
            # Each `helm upgrade` would set it back.
            assert "replicas" not in scaled["spec"]


@EACH
def test_no_two_objects_share_a_name(name: str) -> None:
    named = [(one["kind"], one["metadata"]["name"]) for one in rendering(name)]
    assert len(set(named)) == len(named)
    assert all(len(one) <= 63 for _, one in named)


@EACH
def test_workers_and_the_test_call_the_service(name: str) -> None:
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(name, "Service")}
    for pod in pods(name):
        for container in pod.containers:
            if "JQMASTER_URL" in env_of(container):
                url = urlsplit(env_of(container)["JQMASTER_URL"]["value"])
                assert url.port in [port["port"] for port in services[url.hostname or ""]["ports"]]


@pytest.mark.parametrize("name", [one for one in NAMES if of_kind(one, "ScaledObject", "ScaledJob")])
@pytest.mark.req("D27")
def test_keda_asks_for_the_demand_of_the_slots(name: str) -> None:
    [operation] = [one for one in OPERATIONS if one.path == "/api/demand"]
    for one in of_kind(name, "ScaledObject", "ScaledJob"):
        [trigger] = one["spec"]["triggers"]
        url = urlsplit(trigger["metadata"]["url"])
        assert url.path == operation.path
        assert set(parse_qs(url.query)) <= set(operation.query)
        assert trigger["metadata"]["valueLocation"] in DemandView.model_fields
        [pod] = [pod for pod in pods(name) if pod.name == one["metadata"]["name"]]
        options = _command([*pod.containers[0]["command"][1:], *pod.containers[0]["args"]]).params
        assert int(trigger["metadata"]["targetValue"]) == options["max_jobs"]
        labels = set(parse_qs(url.query).get("label", ()))
        assert labels == set(options["label"] or ())
        assert options["burst"] is (one["kind"] == "ScaledJob")
        [login] = of_kind(name, "TriggerAuthentication")
        assert trigger["authenticationRef"]["name"] == login["metadata"]["name"]


# --- network policies


def _allowed(name: str, caller: Pod, callee: Pod, port: str) -> bool:
    """Return whether the policies let one pod of the rendering call another at a port of that name."""

    def permits(pod: Pod, direction: str, peer: Pod) -> bool:
        policies = [
            one["spec"]
            for one in of_kind(name, "NetworkPolicy")
            if matches(one["spec"]["podSelector"], pod.labels)
            and direction.title() in one["spec"]["policyTypes"]
        ]
        if not policies:
            return True
        peers = {"ingress": "from", "egress": "to"}[direction]
        return any(
            ("ports" not in rule or any(one["port"] in (port, callee.ports[port]) for one in rule["ports"]))
            and (
                peers not in rule
                or any(
                    "podSelector" in one and matches(one["podSelector"], peer.labels) for one in rule[peers]
                )
            )
            for spec in policies
            for rule in spec[direction]
        )

    return permits(caller, "egress", callee) and permits(callee, "ingress", caller)


@EACH
@pytest.mark.req("D18")
def test_policies_let_through_what_talks_and_nothing_else(name: str) -> None:
    ours = pods(name)
    [master] = [pod for pod in ours if pod.component == "master"]
    workers = [pod for pod in ours if pod.component == "worker"]
    [test] = [pod for pod in ours if pod.component == "test"]
    for caller in (*workers, test):
        assert _allowed(name, caller, master, "http"), caller.name
    for worker in workers:
        assert all(_allowed(name, master, worker, port) for port in worker.ports), worker.name
        for other in (*workers, test):
            assert not any(_allowed(name, other, worker, port) for port in worker.ports)
    # Masters ask each other whether they are alive, if there are several.
    assert _allowed(name, master, master, "http") is (master.owner["kind"] == "Deployment")


@EACH
def test_every_declared_port_has_a_rule_and_every_rule_a_port(name: str) -> None:
    for pod in pods(name):
        specs = [
            one["spec"]
            for one in of_kind(name, "NetworkPolicy")
            if matches(one["spec"]["podSelector"], pod.labels)
        ]
        opened = {port["port"] for spec in specs for rule in spec["ingress"] for port in rule["ports"]}
        assert opened == set(pod.ports), pod.name
        if pod.component != "test":
            assert any(set(spec["policyTypes"]) == {"Ingress", "Egress"} for spec in specs)


@EACH
def test_names_are_looked_up_and_the_store_is_reached(name: str) -> None:
    for one in of_kind(name, "NetworkPolicy"):
        if "Egress" in one["spec"]["policyTypes"]:
            asked = [port for rule in one["spec"]["egress"] for port in rule.get("ports", ())]
            assert {"port": 53, "protocol": "UDP"} in asked
    [master] = [
        one["spec"] for one in of_kind(name, "NetworkPolicy") if one["metadata"]["name"] == "jqmaster-master"
    ]
    reaches_store = any(port["port"] == 6379 for rule in master["egress"] for port in rule["ports"])
    assert reaches_store is any(
        "JQMASTER_REDIS_URL" in env_of(container)
        for pod in pods(name) if pod.component == "master" for container in pod.containers
    )  # fmt: skip


# --- certificates


@pytest.mark.parametrize("name", [one for one in NAMES if of_kind(one, "Certificate")])
@pytest.mark.req("D27")
def test_every_secret_with_a_certificate_is_made_and_names_what_is_called(name: str) -> None:
    certificates = {one["spec"]["secretName"]: one["spec"] for one in of_kind(name, "Certificate")}
    used = {
        volume["secret"]["secretName"]
        for pod in pods(name)
        for volume in pod.volumes()
        if volume["name"] == "tls"
    }
    assert used <= set(certificates)
    for pod in pods(name):
        for container in pod.containers:
            url = env_of(container).get("JQMASTER_URL", {}).get("value")
            if url:
                assert urlsplit(url).hostname in certificates["jqmaster-master-tls"]["dnsNames"]
            own = env_of(container).get("JQMASTER_WORKER_URL", {}).get("value")
            if own:
                host = (
                    own.removeprefix("https://")
                    .partition(":")[0]
                    .replace("$(POD_NAMESPACE)", files.NAMESPACE)
                )
                pattern = host.replace("$(POD_NAME)", "*")
                assert pattern in certificates[f"{pod.name}-tls"]["dnsNames"]
                # Only a StatefulSet gives pods names that the DNS knows.
                assert pod.owner["kind"] == "StatefulSet"
                assert pod.owner["spec"]["serviceName"] == pod.name


def test_ready_made_renderings_cover_all_templates() -> None:
    kinds = {one["kind"] for name in NAMES for one in chart.rendering(name)}
    assert kinds >= {
        "Certificate", "ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Ingress", "NetworkPolicy", "Pod",
        "PodDisruptionBudget", "PodMonitor", "PrometheusRule", "ScaledJob", "ScaledObject", "Service", "ServiceAccount",
        "StatefulSet", "TriggerAuthentication",
    }  # fmt: skip
