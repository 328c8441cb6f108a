"""OFFER: the agent-facing tools, defined once for MCP, the host and the commands."""
