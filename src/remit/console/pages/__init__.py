"""Pages, a module each: the data read, and the template."""
