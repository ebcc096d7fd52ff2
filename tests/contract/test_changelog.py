"""Each release tells in a few entries what changes for whom, and what an upgrade must know comes first."""

import re
from pathlib import Path

import pytest

from tools import changelog
from tools.publication import ROOT

TEXT = changelog.FILE.read_text("utf-8")
RELEASES = changelog.releases(TEXT)
MAX_WORDS = 90


@pytest.mark.parametrize("version", RELEASES)
def test_a_release_has_few_entries_under_the_known_headings_in_order(version: str) -> None:
    headings = re.findall(r"^### (.+)$", RELEASES[version], re.MULTILINE)
    assert headings == [heading for heading in changelog.HEADINGS.values() if heading in headings]
    found = changelog.entries(RELEASES[version])
    assert 0 < sum(map(len, found.values())) <= changelog.MAX_ENTRIES, "condense entries that belong together"
    assert all(found.values()), "a heading has no entry"
    long = [entry for texts in found.values() for entry in texts if len(entry.split()) > MAX_WORDS]
    assert long == []


def test_the_page_about_upgrades_leads_to_the_first_section_of_each_release() -> None:
    page = (ROOT / "docs" / "upgrading.md").read_text("utf-8")
    assert f"**{changelog.HEADINGS['upgrade']}**" in page
    assert next(iter(changelog.HEADINGS)) == "upgrade"


def test_fragments_have_a_known_section_and_say_something() -> None:
    strange = [
        file.name
        for file in changelog.FRAGMENTS.iterdir()
        if file.name != "README.md" and not re.fullmatch(r"\+[a-z0-9-]+\.(\w+)\.md", file.name)
    ]
    assert strange == []
    found = changelog.fragments()
    assert found.keys() <= changelog.HEADINGS.keys()
    assert all(text for texts in found.values() for text in texts)
    readme = (changelog.FRAGMENTS / "README.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE) == list(changelog.HEADINGS)


def test_fragments_are_moved_below_their_headings(tmp_path: Path) -> None:
    file, folder = tmp_path / "CHANGELOG.md", tmp_path / "changes.d"
    folder.mkdir()
    (folder / "README.md").write_text("How it works.")
    (folder / "+new.added.md").write_text("It does\nmore: [page](../docs/page.md).\n")
    (folder / "+old.fixed.md").write_text("It works.\n")
    before = "# Changelog\n\n## Unreleased\n\n### Added\n\n- One.\n\n## 0.1.0 (2026-01-01)\n\n### Added\n\n- All.\n"
    file.write_text(before)
    assert changelog.collect(file, folder) == 2
    assert file.read_text() == before.replace(
        "- One.\n", "- One.\n- It does\n  more: [page](docs/page.md).\n\n### Fixed\n\n- It works.\n"
    )
    assert [one.name for one in folder.iterdir()] == ["README.md"]


def test_a_changelog_without_a_section_for_the_next_release_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "CHANGELOG.md"
    file.write_text("# Changelog\n")
    with pytest.raises(ValueError, match="has no section Unreleased"):
        changelog.collect(file, tmp_path)
    assert file.read_text() == "# Changelog\n"
