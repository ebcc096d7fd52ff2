"""Use cases of jobs: enqueue, wait for results, operators' actions, and explanations."""
