"""The search for data about a person, and their erasure, over HTTP."""
