"""Statistics: authors of the lines at HEAD, lifetimes of recorded lines, a suggested mode."""
