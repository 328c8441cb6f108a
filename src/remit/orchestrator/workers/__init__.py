"""Workers: executors of a host, and the agents that they start, feed and land."""
