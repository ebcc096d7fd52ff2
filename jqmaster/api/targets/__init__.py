"""HTTP targets over HTTP."""
