"""Look up the locked versions among known vulnerabilities, and never take silence for good news.

Exit codes: 0, every package was looked up and nothing is known; 1, something is known; 3, not audited.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, Final

from tools.sbom import LOCK, pinned

CLEAN: Final = 0
VULNERABLE: Final = 1
NOT_AUDITED: Final = 3
TIMEOUT_S: Final = 300

AUDIT: Final = (
    sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--format", "json",
    "--progress-spinner", "off",
)  # fmt: skip


def audit(command: Sequence[str] = AUDIT) -> int:
    """Run the audit, say what it found, and return the exit code."""
    wanted = pinned(LOCK)
    try:
        with tempfile.NamedTemporaryFile("w", prefix="audit-", suffix=".txt") as versions:
            # The lock's markers would leave out the packages that other Pythons and other systems need.
            versions.writelines(f"{name}=={version}\n" for name, version in wanted.items())
            versions.flush()
            done = subprocess.run(  # noqa: S603
                (*command, "--requirement", versions.name),
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
        looked_up = {one["name"]: one["vulns"] for one in found if "vulns" in one}
        skipped = next((one["skip_reason"] for one in found if "skip_reason" in one), "")
    except (OSError, subprocess.TimeoutExpired) as exc:
        return _not_audited(str(exc))
    except (ValueError, KeyError, TypeError):
        lines = done.stderr.strip().splitlines() or ["pip-audit said nothing"]
        return _not_audited(lines[-1])
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


def _not_audited(why: str) -> int:
    print(f"NOT AUDITED: {why}", file=sys.stderr)
    return NOT_AUDITED


if __name__ == "__main__":
    sys.exit(audit())
