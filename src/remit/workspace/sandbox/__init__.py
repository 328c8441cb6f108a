"""Running a command where it can change nothing, or nothing for good, outside of what it may change."""
