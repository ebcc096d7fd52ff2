"""The release that masters and workers tell each other. `jqmaster` and `jqmaster-sdk` both take their version from
here."""

VERSION = "0.3.0"
