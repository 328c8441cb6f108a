"""Containment of a command: layers that take its writes, and the transfer of approved changes."""
