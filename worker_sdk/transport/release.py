"""The release number that masters and workers send each other. `jqmaster` and `jqmaster-sdk` both take their version
from here."""

VERSION = "0.3.0"
