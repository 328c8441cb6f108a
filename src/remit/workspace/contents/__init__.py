"""Storage of file contents that records name."""
