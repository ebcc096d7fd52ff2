"""Print the extras that the image has as options of `uv pip`: `python -m tools.image_extras`. pyproject.toml lists the
extras."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def image_extras() -> list[str]:
    """Return the names of the extras."""
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["jqmaster"][
        "image_extras"
    ]
    return found


if __name__ == "__main__":
    print(*(f"--extra {name}" for name in image_extras()))
