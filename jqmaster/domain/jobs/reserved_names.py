"""The names of the masters' own jobs."""

from typing import Final

# Only masters push and run jobs whose names begin with this.
RESERVED_PREFIX: Final = "jq."
