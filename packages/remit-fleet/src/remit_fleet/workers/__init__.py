"""Workers: executors of a host that start, feed and land their agents."""
