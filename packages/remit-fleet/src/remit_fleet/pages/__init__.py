"""The console's pages of plans and workers: Fleet."""
