"""A release comes from one version, is the same whenever it is built, and can be read without the repository."""

import email.parser
import hashlib
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.each import for_each
from tools import changelog, install_lines, publication, release, wheels
from worker_sdk.transport.release import VERSION

ROOT = Path(__file__).parents[2]
FORGES = {
    "github": ROOT / ".github" / "workflows" / "release.yml",
    "gitlab": ROOT / ".gitlab-ci.yml",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return wheels.build_all(tmp_path_factory.mktemp("release"))


def described(distribution: Path) -> Any:
    """Return the metadata of a wheel or a source distribution."""
    if distribution.suffix == ".whl":
        archive = zipfile.ZipFile(distribution)
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return email.parser.BytesParser().parsebytes(archive.read(name))
    with tarfile.open(distribution) as packed:
        [name] = [one for one in packed.getnames() if one.count("/") == 1 and one.endswith("/PKG-INFO")]
        member = packed.extractfile(name)
        assert member
        return email.parser.BytesParser().parsebytes(member.read())


def test_two_builds_of_one_state_give_the_same_bytes(built: list[Path], tmp_path: Path) -> None:
    again = wheels.build_all(tmp_path)
    assert [path.name for path in again] == [path.name for path in built]
    for one, other in zip(built, again, strict=True):
        assert hashlib.sha256(one.read_bytes()).digest() == hashlib.sha256(other.read_bytes()).digest(), (
            one.name
        )


def test_every_distribution_names_its_author_licence_and_addresses(built: list[Path]) -> None:
    assert [path.name for path in built] == [
        f"jqmaster_sdk-{VERSION}-py3-none-any.whl", f"jqmaster-{VERSION}-py3-none-any.whl",
        f"jqmaster_sdk-{VERSION}.tar.gz", f"jqmaster-{VERSION}.tar.gz",
    ]  # fmt: skip
    for path in built:
        metadata = described(path)
        assert metadata["Version"] == VERSION
        assert metadata["Author"] == "The jqmaster maintainers"
        assert (metadata["License-Expression"], metadata.get_all("License-File")) == (
            "Apache-2.0",
            ["LICENSE"],
        )
        assert dict(url.split(", ") for url in metadata.get_all("Project-URL")) == publication.URLS
        assert metadata["Description-Content-Type"] == "text/markdown"


def test_the_readme_on_an_index_has_only_absolute_links_and_each_leads_to_a_file(built: list[Path]) -> None:
    base = publication.URLS["Repository"]
    for path in built:
        links = re.findall(r"\]\(([^)]+)\)", described(path).get_payload())
        assert links
        for link in links:
            assert re.match(r"https?://|#", link), (path.name, link)
            if link.startswith(base):
                file = re.sub(r"^/(?:blob|raw|tree)/main/", "", link.removeprefix(base)).partition("#")[0]
                assert (ROOT / file).exists(), (path.name, link)


def test_a_source_distribution_holds_what_its_wheel_is_built_of_and_no_more(built: list[Path]) -> None:
    for wheel, source in zip(built[:2], built[2:], strict=True):
        with tarfile.open(source) as packed:
            files = {name.partition("/")[2] for name in packed.getnames()}
            member = packed.extractfile(f"{source.name.removesuffix('.tar.gz')}/pyproject.toml")
            assert member
            project = tomllib.loads(member.read().decode())["project"]
        inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
        is_sdk = wheel.name.startswith("jqmaster_sdk")
        # The SDK's folder is the package, and the OpenAPI documents move into it.
        moved = "worker_sdk/" if is_sdk else "jqmaster/"
        assert {
            name.removeprefix(moved) if is_sdk or name.startswith("jqmaster/openapi/") else name
            for name in inside
        } <= files
        if not is_sdk:
            others = {name for name in files if not name.startswith(("jqmaster/", "openapi/"))}
            assert others == {"pyproject.toml", "README.md", "LICENSE", "PKG-INFO"}
            assert (project["version"], f"jqmaster-sdk=={VERSION}" in project["dependencies"]) == (
                VERSION,
                True,
            )


def test_both_projects_have_the_same_addresses_and_a_published_one_has_no_placeholder() -> None:
    sdk = tomllib.loads((ROOT / "worker_sdk" / "pyproject.toml").read_text("utf-8"))["project"]
    root = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (sdk["urls"], sdk["authors"]) == (root["urls"], root["authors"])
    has_placeholder = any(url.startswith(publication.PLACEHOLDER) for url in publication.URLS.values())
    assert not (publication.IS_PUBLISHED and has_placeholder)


@for_each("page", install_lines.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_installs_from_the_checkout_until_it_is_published(page: Path) -> None:
    text = page.read_text("utf-8")
    assert install_lines.rewritten(text) == text, "run: make docs"
    # Every command is recognised, so that a flip reaches all of them.
    flipped = install_lines.rewritten(text, is_published=True)
    assert install_lines.CHECKOUT not in flipped
    back = install_lines.rewritten(flipped, is_published=False)
    assert back == install_lines.rewritten(text, is_published=False)


def test_an_install_line_is_found_in_all_its_forms() -> None:
    for checkout, index in (
        ("pip install /path/to/this/checkout", "pip install jqmaster"),
        ('bin/pip install "/path/to/this/checkout/worker_sdk[worker]"', 'bin/pip install "jqmaster-sdk[worker]"'),
        ("pip wheel --wheel-dir dist /path/to/this/checkout", "pip wheel --wheel-dir dist jqmaster"),
        ("`pip install '/path/to/this/checkout[archive]'`", "`pip install 'jqmaster[archive]'`"),
    ):  # fmt: skip
        assert install_lines.rewritten(checkout, is_published=True) == index
        assert install_lines.rewritten(index, is_published=False) == checkout
    for other in ("pip install jqmaster-plugin", "pip install /tmp/jqmaster-*.whl", "pip install django"):
        assert install_lines.rewritten(other, is_published=False) == other


def test_notes_come_from_the_changelog_with_what_an_upgrade_must_know_first() -> None:
    notes = release.notes()
    assert notes.startswith(f"# jqmaster {VERSION}\n\n## ")
    headings = re.findall(r"^## (.*)$", notes, re.MULTILINE)
    assert headings == [heading for heading in changelog.HEADINGS.values() if heading in headings]
    for texts in changelog.fragments().values():
        assert all(f"- {text}" in notes for text in texts)
    for texts in changelog.entries(
        changelog.releases(changelog.FILE.read_text("utf-8"))["Unreleased"]
    ).values():
        assert all(f"- {text}" in notes for text in texts)


def test_a_chart_is_packaged_as_helm_does(tmp_path: Path) -> None:
    folder = tmp_path / "jqmaster"
    (folder / "templates").mkdir(parents=True)
    (folder / "ci").mkdir()
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: jqmaster\nversion: 0.0.0\nappVersion: 0.0.0\n")
    (folder / ".helmignore").write_text("# not these\nci/\n*.orig\n")
    for name in ("templates/master.yaml", "templates/master.yaml.orig", "ci/values.yaml"):
        (folder / name).write_text("x")
    (folder / "files").symlink_to(ROOT / "deploy" / "systemd")
    packed = release.chart(tmp_path, folder)
    with tarfile.open(packed) as archive:
        assert archive.getnames() == [
            "jqmaster/.helmignore",
            "jqmaster/Chart.yaml",
            "jqmaster/files/jqmaster-worker@.service",
            "jqmaster/files/jqmaster.service",
            "jqmaster/templates/master.yaml",
        ]
        assert all(entry.isfile() and entry.size for entry in archive)
        member = archive.extractfile("jqmaster/Chart.yaml")
        assert member
        chart = yaml.safe_load(member.read())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    first = packed.read_bytes()
    assert release.chart(tmp_path, folder).read_bytes() == first


def test_the_report_names_parts_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(release.LeftOutError, match="the image: buildah is not here"):
        release.container(tmp_path, "localhost/jqmaster", "0")
    with pytest.raises(release.LeftOutError, match="the npm package: npm is not here"):
        release.npm_package(tmp_path)
    with pytest.raises(release.LeftOutError, match="the chart: "):
        release.chart(tmp_path, tmp_path / "none")
    with pytest.raises(release.LeftOutError, match="cyclonedx-bom"):
        release.bill(tmp_path, ("/nonexistent/tool",))
    assert (tmp_path / f"jqmaster-{VERSION}.cdx.json").read_bytes() == (ROOT / "sbom.cdx.json").read_bytes()
    release.sums(tmp_path)
    digest, name = (tmp_path / "SHA256SUMS").read_text().split()
    assert digest == hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()


@pytest.mark.parametrize("forge", FORGES)
def test_a_forge_publishes_by_identity_and_signs_without_a_key(forge: str) -> None:
    text = FORGES[forge].read_text("utf-8")
    assert yaml.safe_load(text)
    assert "python -m tools.publication --tag" in text
    assert "make release STRICT=1" in text
    assert re.search(r'cosign sign --yes "\S+@\$\(cat digest\)"', text)
    # No stored password or key: the forge's own short-lived tokens are all there is.
    assert not re.search(
        r"secrets\.|PYPI_(?:API_)?TOKEN|TWINE_PASSWORD|COSIGN_(?:PRIVATE_KEY|PASSWORD)", text
    )
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) - {"test"} <= targets


def test_each_job_of_the_workflow_has_the_least_rights() -> None:
    workflow = yaml.safe_load(FORGES["github"].read_text("utf-8"))
    assert workflow["permissions"] == {}
    rights = {name: set(job["permissions"]) for name, job in workflow["jobs"].items()}
    assert rights == {
        "build": {"contents"},
        "index": {"id-token"},
        "image": {"id-token", "packages"},
        "notes": {"contents"},
    }
    assert workflow["jobs"]["build"]["permissions"]["contents"] == "read"
    assert workflow["jobs"]["index"]["needs"] == "build"


def test_a_tag_must_be_the_version_of_a_published_project(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "pyproject.toml says that jqmaster is not published" in publication.obstacles(f"v{VERSION}")[0]
    monkeypatch.setattr(publication, "IS_PUBLISHED", True)
    monkeypatch.setattr(publication, "URLS", {"Repository": "https://forge.example.org/jqmaster"})
    assert publication.obstacles(f"v{VERSION}") == []
    assert publication.obstacles("v0.0.1") == [f"the tag v0.0.1 is not the version: v{VERSION}"]
