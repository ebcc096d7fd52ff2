"""`manage.py jq_worker`, `jq_run` and `jq_outbox`."""
