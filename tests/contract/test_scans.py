"""No script and no duty goes through all keys of a server, which installations and other programs may share."""

import re
from pathlib import Path

PRODUCT = Path(__file__).parents[2] / "jqmaster"
# Commands that go through all keys. SSCAN, HSCAN and ZSCAN read one key.
WHOLE_STORE = re.compile(r"""["'](SCAN|KEYS|RANDOMKEY|FLUSHALL|FLUSHDB)["']|\.scan(_iter)?\(|\.keys\("\*""")
# By file, where such a command is, and why.
ALLOWED = {
    # Strays are keys that no index names: `jqmaster fsck`, once after each election, and while ready jobs are not
    # claimed although workers are free.
    "store/health/fsck.py": ['"SCAN"'],
    # For the search for strays above: one scan for all shards of a store.
    "store/link/shared_scan.py": ['"SCAN"'],
    # `jqmaster backup`, `jqmaster restore` and `jqmaster export` only.
    "store/backup/copying.py": ['"SCAN"'],
    "store/backup/loading.py": ['"SCAN"'],
    # `jqmaster fsck` only.
    "store/health/batches.py": ['"SCAN"'],
    # The search for personal data only, which asks for one step at a time.
    "store/personal_data/holdings.py": ['"SCAN"'],
    # `jqmaster fsck` only; `jqmaster doctor` looks at the first pages.
    "store/health/key_types.py": ['"SCAN"'],
}


def commands_in(path: Path) -> list[str]:
    return [
        match[0]
        for line in path.read_text().splitlines()
        if not line.lstrip().startswith(("#", "--"))
        for match in WHOLE_STORE.finditer(line)
        # A list that is read from the store in pages, and the header of a script.
        if not re.search(r"inspector\.scan\(|self\.scan\(|fields\[", line)
    ]


def test_only_the_search_for_strays_goes_through_all_keys() -> None:
    store = [*(PRODUCT / "store").rglob("*.py"), *(PRODUCT / "store").rglob("*.lua")]
    rest = [path for room in ("service", "runtime", "api", "app") for path in (PRODUCT / room).rglob("*.py")]
    found = {str(path.relative_to(PRODUCT)): commands_in(path) for path in store + rest}
    assert {place: commands for place, commands in found.items() if commands} == ALLOWED
