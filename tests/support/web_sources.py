"""The sources of the web UI: what people write, without libraries and without the bundle."""

from pathlib import Path
from typing import Final

import jqmaster

WEB: Final = Path(jqmaster.__file__).parent / "web"
_NOT_OURS: Final = {"bundle", "vendor"}


def web_sources(pattern: str = "*.js") -> list[Path]:
    """Return the sources that match `pattern`, from all rooms."""
    return sorted(path for path in WEB.rglob(pattern) if path.relative_to(WEB).parts[0] not in _NOT_OURS)
