"""docs/metrics.md, the dashboard and the alerts name existing metrics."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from jqmaster.service.operations.metrics import METRICS

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "jqmaster.json"
RULES = ROOT / "deploy" / "prometheus" / "jqmaster.rules.yml"
# The client library's own metrics.
OF_THE_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def table() -> str:
    lines = ["| Metric | Kind | Labels | Tells |", "|---|---|---|---|"]
    for info in METRICS.values():
        suffix = "_total" if info.kind == "counter" else ""
        labels = ", ".join(f"`{label}`" for label in info.labels)
        lines.append(f"| `{info.name}{suffix}` | {info.kind} | {labels} | {info.text} |")
    return "\n".join(lines) + "\n"


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
    return set(re.findall(r"\b(?:jqmaster|process)_\w+", query))


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

    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    return within(json.loads(DASHBOARD.read_text())) + [rule["expr"] for rule in rules]


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_what_is_asked_for_exists(query: str) -> None:
    assert named(query) <= series()
    known = {label for info in METRICS.values() for label in info.labels} | {"job", "instance", "le"}
    assert labels_of(query) <= known
    assert query.count("(") == query.count(")")


def test_the_dashboard_and_the_alerts_show_every_metric_of_ours() -> None:
    """Skip metrics that only describe a master."""
    asked = {name for query in queries() for name in named(query)}
    for info in METRICS.values():
        stands = {name for name in asked if name.startswith(info.name)}
        assert stands or info.name in ("jqmaster_settings_version",), info.name


def test_every_alert_says_what_is_wrong() -> None:
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"]


if __name__ == "__main__":
    print(table())
