"""Build the two wheels of a release, `python -m tools.wheels DIRECTORY`: `jqmaster-sdk`, and `jqmaster`, which
needs it.

`pip install .` makes one wheel of both packages, so that a checkout can be installed without an index. A release is
two, so that an application installs the SDK without the server, and no file belongs to two distributions. The only
differences between that wheel and the server's are the two that `build` makes; both are built from the same
`pyproject.toml`.
"""

import sys
import tomllib
from pathlib import Path
from typing import Final

from hatchling.builders.wheel import WheelBuilder

ROOT: Final = Path(__file__).parents[1]


def build(directory: Path) -> tuple[Path, Path]:
    """Build both into `directory`, and return the wheel of the SDK and that of the server."""
    sdk = WheelBuilder(str(ROOT / "worker_sdk"))
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    config["project"]["dependencies"].append(f"jqmaster-sdk=={sdk.metadata.version}")
    config["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] = ["jqmaster"]
    server = WheelBuilder(str(ROOT), config=config)
    [of_sdk] = sdk.build(directory=str(directory), versions=["standard"])
    [of_server] = server.build(directory=str(directory), versions=["standard"])
    return Path(of_sdk), Path(of_server)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for wheel in build(Path(sys.argv[1]).resolve()):
        print(wheel)
