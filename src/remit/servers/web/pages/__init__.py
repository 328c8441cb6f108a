"""One module a page: what it reads, and which template shows it."""
