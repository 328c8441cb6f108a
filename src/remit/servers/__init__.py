"""Entry points for agents: the hook, the daemon and the MCP server."""
