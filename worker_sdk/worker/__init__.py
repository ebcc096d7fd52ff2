"""The worker: takes jobs over HTTP or by long poll, runs handlers, and reports results."""
