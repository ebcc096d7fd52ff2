"""HTTP targets: endpoints that do jobs without a worker."""
