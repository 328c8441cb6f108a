"""OFFER: the agent-facing tools, defined once for MCP, Remit's own agent and the commands."""
