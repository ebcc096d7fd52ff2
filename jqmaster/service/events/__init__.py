"""Events: taken in, gathered, shown."""
