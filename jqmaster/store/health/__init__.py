"""Checks of the store: abilities, rights, identity, consistency, repair."""
