"""KNOCK: the thin client that agents start for each tool call. It imports nothing of ours."""
