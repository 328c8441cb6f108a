"""DECIDE: (call, facts) -> decision. Pure: no I/O, no clock, no chance."""
