"""Extras: optional parts of Remit, each with packages of its own."""

DISTRIBUTIONS = {"agent": "remit-agent", "agent-bedrock": "remit-agent[bedrock]", "cluster": "remit-fleet"}
"""The packages of Remit's own that extras bring. They are on no index yet, so pip needs their folders."""


def describe_installation(extra: str) -> str:
    """Return the commands that install an extra. Remit is on no package index yet."""
    folder = f". './packages/{DISTRIBUTIONS[extra]}'" if extra in DISTRIBUTIONS else f"'.[{extra}]'"
    return (
        f"in Remit's checkout: uv tool install '.[{extra}]', or pip install {folder}; "
        "uv removes extras that you do not name"
    )
