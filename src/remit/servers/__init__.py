"""LISTEN: the hook, the daemon and the MCP server, and the door of acts that only a person may do."""
