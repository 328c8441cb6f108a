"""OFFER: the agent-facing tools, once, for MCP, the host and the commands."""
