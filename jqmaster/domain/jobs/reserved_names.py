"""The names of the masters' own jobs."""

from typing import Final

# Only masters push and run jobs of these names.
RESERVED_PREFIX: Final = "jq."
