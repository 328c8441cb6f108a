"""Extras: optional parts of Remit, each with packages of its own."""


def describe_installation(extras: str) -> str:
    """Return the commands that install extras, named as in `agent,agent-bedrock`. Remit is on no package index yet."""
    return f"in Remit's checkout: uv tool install '.[{extras}]', or pip install '.[{extras}]'"
