"""The names of the masters' own jobs."""

from typing import Final

# Nobody but the masters pushes or serves jobs of these names.
RESERVED_PREFIX: Final = "jq."
