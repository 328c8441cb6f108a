"""SHOW: pages in which a person sees the agents' work, decides pending questions, and reads the reasons of code.

What a command tells, a page takes from the same function, or from the command itself in a worker, so that a page's JSON
and `--json` tell the same.
"""
