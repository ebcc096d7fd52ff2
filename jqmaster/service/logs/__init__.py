"""Use cases of logs of jobs: store, read and archive logs."""
