"""Events over HTTP."""
