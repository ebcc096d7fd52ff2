"""Use cases of jobs: enqueue in batches within limits, wait for results, steer, and explain."""
