"""Events, what each started, and those that wait to become one job."""
