# Shows: configure
from worker_sdk import Tasks, configure

tasks = Tasks()  # asks `configure` when the first job is enqueued

# Once, at the start of the process.
configure(url="https://jobs.example.org", token="the token", max_wait_s=3)
