"""Every alert and every finding about the queue has a section in docs/runbooks.md, and every section is for one."""

import re
from pathlib import Path
from typing import get_args

import pytest
import yaml

from jqmaster.domain.operations.health import FindingCode
from tools import runbooks

ROOT = Path(__file__).parents[2]
SECTIONS = runbooks.sections()
# Findings that need no runbook, because there is nothing to do.
REPORTS = {"drains", "replaced_worker"}


def test_every_section_says_what_it_is_for_and_has_its_three_parts() -> None:
    text = runbooks.SOURCE.read_text("utf-8")
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)[1:]
    assert [section.title for section in SECTIONS] == parts[::2]
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        for part in ("**Meaning.** ", "**Look at**\n", "**Do**\n"):
            assert body.count(part) == 1, (title, part)


def test_every_alert_has_a_section_and_its_address() -> None:
    groups = yaml.safe_load(runbooks.RULES.read_text("utf-8"))["groups"]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert sorted(rule["alert"] for rule in alerts) == sorted(
        name for section in SECTIONS for name in section.alerts
    )
    slugs = {name: section.slug for section in SECTIONS for name in section.alerts}
    for rule in alerts:
        assert rule["annotations"]["runbook_url"].endswith(f"#{slugs[rule['alert']]}")


def test_every_finding_has_a_section_and_no_section_is_without_a_cause() -> None:
    named = [code for section in SECTIONS for code in section.faults]
    assert len(set(named)) == len(named)
    assert set(named) == set(get_args(FindingCode)) - REPORTS
    assert [section.title for section in SECTIONS if not section.alerts and not section.faults] == []


@pytest.mark.parametrize("path", [*runbooks.files()], ids=lambda path: path.name)
def test_files_made_from_the_runbooks_are_up_to_date(path: Path) -> None:
    assert path.read_text("utf-8") == runbooks.files()[path], "run: make docs"


def test_links_within_the_page_lead_somewhere() -> None:
    page = runbooks.PAGE.read_text("utf-8")
    anchors = set(re.findall(r' id="([^"]+)"', page))
    links = re.findall(r'<a href="([^"]+)"', page)
    assert len(links) > len(SECTIONS)
    assert {link.removeprefix("#") for link in links} <= anchors
    assert {section.slug for section in SECTIONS} <= anchors
