"""Make all parts of a release: `python -m tools.release DIRECTORY [--strict] [--image REFERENCE]`.

The parts are wheels and source distributions, the npm package, the image, the chart, a bill of materials, notes and
checksums. All of them have the version in worker_sdk/transport/release.py.

The output names each part that cannot be made here. With `--strict`, the exit code is then 3. The same commit gives the
same bytes for all parts except the image and its checksum.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

from tools import changelog, sbom, wheels
from tools.publication import IS_PUBLISHED, PLACEHOLDER, ROOT, URLS

CHART: Final = ROOT / "deploy" / "helm" / "jqmaster"
NPM: Final = ROOT / "clients" / "typescript"
SUMS: Final = "SHA256SUMS"
LEFT_OUT: Final = 3


class LeftOutError(Exception):
    """A part of the release cannot be made here. The text of the error names the part and the remedy."""


def release(directory: Path, image: str) -> list[str]:
    """Build all parts of the release in `directory`. Return the parts that could not be built, with the reasons."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    epoch = os.environ.setdefault("SOURCE_DATE_EPOCH", _commit_time())
    left_out = []
    wheels.build_all(directory)
    (directory / "NOTES.md").write_text(notes(), "utf-8")
    for make in (
        lambda: npm_package(directory),
        lambda: chart(directory),
        lambda: bill(directory),
        lambda: container(directory, image, epoch),
        lambda: check(directory),
    ):
        try:
            make()
        except LeftOutError as exc:
            left_out.append(str(exc))
    sums(directory)
    return left_out


def notes() -> str:
    """Return the notes of this version: its section of CHANGELOG.md. If there is no such section, return the section
    Unreleased with the fragments in changes.d."""
    version = wheels.version()
    text = changelog.FILE.read_text("utf-8")
    released = changelog.releases(text)
    coming = changelog.awaiting(text)
    body = coming or released.get(version, "").strip()
    return f"# jqmaster {version}\n\n" + body.replace("\n### ", "\n## ").removeprefix("#") + "\n"


def chart(directory: Path, folder: Path = CHART) -> Path:
    """Package the chart as `helm package` does, as an archive of one folder. Leave out the files that .helmignore
    names, and replace both versions in Chart.yaml."""
    if not (folder / "Chart.yaml").is_file():
        raise LeftOutError("the chart: deploy/helm/jqmaster/Chart.yaml does not exist")
    version = wheels.version()
    ignore = folder / ".helmignore"
    lines = ignore.read_text("utf-8").splitlines() if ignore.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    target = directory / f"jqmaster-chart-{version}.tgz"
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=_epoch()) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        # Follow links. Alert rules and dashboards are links to other folders, and the archive must have their content.
        for path in sorted(
            Path(where, file) for where, _, found in os.walk(folder, followlinks=True) for file in found
        ):
            name = path.relative_to(folder).as_posix()
            if _is_ignored(name, patterns):
                continue
            data = path.read_bytes()
            if name == "Chart.yaml":
                data = _with_version(data.decode(), version).encode()
            entry = tarfile.TarInfo(f"{folder.name}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), _epoch(), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return target


def npm_package(directory: Path, folder: Path = NPM) -> Path:
    """Compile the TypeScript package anew, and pack it as `npm publish` does."""
    if shutil.which("npm") is None:
        raise LeftOutError("the npm package: npm is not here (on Debian: apt install npm)")
    version = wheels.version()
    manifest: dict[str, Any] = json.loads((folder / "package.json").read_text("utf-8"))
    if manifest["version"] != version:
        raise ValueError(
            f"clients/typescript/package.json has the version {manifest['version']}, not {version}"
        )
    # Remove the files of an earlier build, which may come from other sources.
    shutil.rmtree(folder / "dist", ignore_errors=True)
    commands = [("npm", "pack", "--silent", "--pack-destination", str(directory))]
    if not (folder / "node_modules" / ".package-lock.json").is_file():
        commands.insert(0, ("npm", "ci", "--silent", "--fetch-timeout=30000", "--fetch-retries=1"))
    for command in commands:
        done = _run(command, folder)
        if done.returncode:
            last = ((done.stderr + done.stdout).strip().splitlines() or ["no reason was given"])[-1]
            raise LeftOutError(f"the npm package: `{' '.join(command[:2])}` failed: {last}")
    return directory / f"{manifest['name']}-{version}.tgz"


def bill(directory: Path, command: Sequence[str] = (sys.executable, "-m", "cyclonedx_py")) -> Path:
    """Write the bill of materials. cyclonedx-bom makes the Python part from the lock. The libraries in the web UI are
    added to it."""
    target = directory / f"jqmaster-{wheels.version()}.cdx.json"
    tool = (*command, "requirements", str(sbom.LOCK), "--pyproject", str(ROOT / "pyproject.toml"),
            "--output-reproducible", "--spec-version", "1.6", "--output-format", "JSON")  # fmt: skip
    try:
        done = _run(tool)
        made: dict[str, Any] = json.loads(done.stdout)
        listed = {one["name"].lower().replace("_", "-") for one in made["components"]}
    except (OSError, ValueError, KeyError) as exc:
        shutil.copy(sbom.FILE, target)
        raise LeftOutError(
            f"the bill of materials by cyclonedx-bom ({exc}): the committed sbom.cdx.json stands in for it"
        ) from exc
    if missing := sbom.pinned(sbom.LOCK).keys() - {re.sub(r"[-_.]+", "-", name) for name in listed}:
        raise ValueError(f"the bill of materials lacks {sorted(missing)}")
    made["components"] += [one for one in sbom.document()["components"] if one["purl"].startswith("pkg:npm/")]
    target.write_text(json.dumps(made, indent=2, sort_keys=True) + "\n", "utf-8")
    return target


def container(directory: Path, image: str, epoch: str) -> None:
    """Build the image with buildah, and write it as an OCI archive."""
    if shutil.which("buildah") is None:
        raise LeftOutError("the image: buildah is not here (on Debian: apt install buildah)")
    version = wheels.version()
    name = f"{image}:{version}"
    # Use the format `docker`. In another format, the image would lose its health check.
    build = ("buildah", "build", "--format", "docker", "--timestamp", epoch, "--tag", name, ".")
    archive = directory / f"jqmaster-{version}-image.tar"
    for command in (build, ("buildah", "push", name, f"docker-archive:{archive}:{name}")):
        done = _run(command)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
            raise LeftOutError(f"the image: `{' '.join(command[:2])}` failed: {last}")


def check(directory: Path) -> None:
    """Check the distributions for faults that would make a package index refuse them or show them badly."""
    files = [str(path) for path in sorted(directory.iterdir()) if path.name.endswith((".whl", ".tar.gz"))]
    command = (sys.executable, "-m", "twine", "check", "--strict", *files)
    done = _run(command)
    if "No module named twine" in done.stderr:
        raise LeftOutError("the check by twine: it is not installed")
    if done.returncode:
        raise ValueError(done.stdout + done.stderr)


def sums(directory: Path) -> None:
    """Write the checksums in the form that `sha256sum --check` reads."""
    lines = []
    for path in sorted(directory.iterdir()):
        if path.is_file() and path.name not in (SUMS, ".gitignore"):
            with path.open("rb") as file:
                lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (directory / SUMS).write_text("".join(lines), "utf-8")


def _with_version(text: str, version: str) -> str:
    text = re.sub(r"^version:.*$", f"version: {version}", text, flags=re.MULTILINE)
    return re.sub(r"^appVersion:.*$", f'appVersion: "{version}"', text, flags=re.MULTILINE)


def _is_ignored(name: str, patterns: Sequence[str]) -> bool:
    parents = [name, *(parent.as_posix() for parent in Path(name).parents)]
    for pattern in patterns:
        plain = pattern.strip("/")
        # A pattern without an inner slash matches at any depth.
        if any(fnmatch(one if "/" in plain else Path(one).name, plain) for one in parents if one != "."):
            return True
    return False


def _run(command: Sequence[str], folder: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)  # noqa: S603


def _epoch() -> int:
    return int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


def _commit_time() -> str:
    done = _run(("git", "log", "-1", "--format=%ct"))
    # A source archive has no history with a time, so use a fixed time.
    return done.stdout.strip() or "315532800"


def main() -> int:
    """Make a release, print which parts were made and which were left out, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--strict", action="store_true", help="fail if a part cannot be made here")
    parser.add_argument("--image", default="localhost/jqmaster", help="name of the image, without its tag")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    left_out = release(directory, arguments.image)
    for path in sorted(directory.iterdir()):
        if path.name != ".gitignore":
            print(f"{path.stat().st_size:>12,}  {path.name}")
    for part in left_out:
        print(f"LEFT OUT: {part}", file=sys.stderr)
    if not IS_PUBLISHED and any(url.startswith(PLACEHOLDER) for url in URLS.values()):
        print(
            f"The addresses in these files are placeholders ({PLACEHOLDER}): see docs/releasing.md.",
            file=sys.stderr,
        )
    return LEFT_OUT if left_out and arguments.strict else 0


if __name__ == "__main__":
    sys.exit(main())
