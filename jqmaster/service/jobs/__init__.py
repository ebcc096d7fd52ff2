"""Use cases of jobs: enqueue jobs, wait for results, act on jobs for operators, and explain waits."""
