"""docs/metrics.md, the dashboard and the alerts name existing metrics."""

import functools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jqmaster.service.operations.metric_catalog import METRICS
from tests.support.each import for_each

ROOT = Path(__file__).parents[2]
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
RULES = ROOT / "deploy" / "prometheus" / "jqmaster.rules.yml"
RULES_TEST = ROOT / "tests" / "contract" / "jqmaster.rules.test.yml"
# The client library's own metrics.
OF_THE_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def table() -> str:
    lines = ["| Metric | Kind | Labels | Tells |", "|---|---|---|---|"]
    for info in METRICS.values():
        suffix = "_total" if info.kind == "counter" else ""
        labels = ", ".join(f"`{label}`" for label in info.labels)
        lines.append(f"| `{info.name}{suffix}` | {info.kind} | {labels} | {info.text} |")
    return "\n".join(lines) + "\n"


@functools.cache
def series() -> set[str]:
    """Return metric names as they appear in queries."""
    found = set(OF_THE_PROCESS)
    for info in METRICS.values():
        match info.kind:
            case "counter":
                found.add(f"{info.name}_total")
            case "gauge":
                found.add(info.name)
            case "histogram":
                found |= {f"{info.name}_{part}" for part in ("bucket", "sum", "count")}
    return found


def named(query: str) -> set[str]:
    """Return the metrics of masters; the names of recorded ones have colons."""
    return set(re.findall(r"(?<![\w:])(?:jqmaster|process)_\w+\b(?!:)", query))


def recorded_in(query: str) -> set[str]:
    return set(re.findall(r"\b\w+:jqmaster_\w+:\w+|\bjqmaster:\w+:\w+", query))


def labels_of(query: str) -> set[str]:
    inside = re.findall(r"\{([^}]*)\}", query)
    return {label for part in inside for label in re.findall(r"(\w+)\s*=", part)}


def test_the_document_shows_every_metric() -> None:
    """Return the table. To renew it, replace it with the output of `python -m tests.contract.test_metrics_doc`."""
    assert table() in (ROOT / "docs" / "metrics.md").read_text()


def queries() -> list[str]:
    def within(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [text for key in ("expr", "query") if isinstance(text := value.get(key), str)]
            return own + [query for item in value.values() for query in within(item)]
        return [query for item in value for query in within(item)] if isinstance(value, list) else []

    return within([json.loads(file.read_text()) for file in DASHBOARDS]) + [rule["expr"] for rule in rules()]


@functools.cache
def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    return [rule for rule in rules() if "alert" in rule]


@for_each("query", sorted(set(queries())))
def test_every_queried_metric_exists(query: str) -> None:
    assert named(query) <= series()
    assert recorded_in(query) <= {rule["record"] for rule in rules() if "record" in rule}
    known = {label for info in METRICS.values() for label in info.labels} | {
        "job",
        "instance",
        "le",
        "slo",
        "namespace",
    }
    assert labels_of(query) <= known
    assert query.count("(") == query.count(")")


def test_the_dashboard_and_the_alerts_show_every_metric_of_ours() -> None:
    """Skip metrics that only describe a master."""
    asked = {name for query in queries() for name in named(query)}
    for info in METRICS.values():
        stands = {name for name in asked if name.startswith(info.name)}
        assert stands or info.name in ("jqmaster_settings_version",), info.name


@for_each("rule", rules(), ids=lambda rule: str(rule.get("alert") or rule["record"]))
def test_a_rule_does_not_add_namespaces_up(rule: dict[str, Any]) -> None:
    """Each aggregation of what concerns one namespace is by namespace."""
    of_process = [info.name for info in METRICS.values() if not info.is_by_namespace]
    if any(not name.startswith(tuple(of_process)) for name in named(rule["expr"])):
        kept = re.findall(r"\b(?:sum|max|min)\b(?: by \(([^)]*)\))?", rule["expr"])
        assert all("namespace" in labels.split(", ") for labels in kept), rule["expr"]


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in alerts()}) == len(alerts()) >= 10
    for rule in alerts():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook_url"]


def test_every_recorded_series_is_used() -> None:
    used = {name for query in queries() for name in recorded_in(query)}
    assert used == {rule["record"] for rule in rules() if "record" in rule}


def promtool() -> str | None:
    return shutil.which("promtool") or shutil.which("promtool", path=str(Path(sys.executable).parent))


@pytest.mark.skipif(promtool() is None, reason="promtool is not here: make promtool")
@pytest.mark.parametrize("command", [("check", "rules", str(RULES)), ("test", "rules", str(RULES_TEST))])
def test_prometheus_takes_the_rules_and_they_fire_when_they_should(command: tuple[str, ...]) -> None:
    done = subprocess.run([promtool(), *command], capture_output=True, text=True, check=False)  # type: ignore[list-item]
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


if __name__ == "__main__":
    print(table())
