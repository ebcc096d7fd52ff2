"""The built wheel holds what an installed copy needs: `jqmaster openapi` works wherever it is installed."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    [built] = WheelBuilder(str(ROOT)).build(
        directory=str(tmp_path_factory.mktemp("wheel")), versions=["standard"]
    )
    return Path(built)


def test_the_wheel_holds_every_file_that_is_not_python(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("jqmaster/web", "jqmaster/store/lua"):
        files = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        assert files
        assert files <= packed
    assert {"jqmaster/py.typed", "worker_sdk/py.typed"} <= packed


@pytest.mark.req("J11")
@pytest.mark.parametrize("name", ["master", "worker"])
def test_an_installed_copy_prints_its_openapi_documents(wheel: Path, tmp_path: Path, name: str) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    # -S -E: of this environment nothing but its libraries, or the checkout itself would be found.
    libraries = str(Path(pytest.__file__).parents[1])
    printed = subprocess.run(
        [
            sys.executable,
            "-S",
            "-E",
            "-c",
            f"import sys; sys.path[1:1] = [{str(tmp_path)!r}, {libraries!r}]; "
            f"sys.argv = ['jqmaster', 'openapi', {name!r}]; from jqmaster.cli import main; main()",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    committed = {"master": "jqmaster.yaml", "worker": "worker.yaml"}[name]
    assert printed == (ROOT / "openapi" / committed).read_text("utf-8")
