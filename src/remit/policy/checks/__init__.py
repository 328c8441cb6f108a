"""The checks: one function, and one reason to refuse a call, each, in a file for each subject."""
