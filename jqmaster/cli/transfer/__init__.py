"""Exports: what an installation holds as JSON lines, and its way into another one."""
