"""Definitions: what fires, what people change, and what became of each instant."""
