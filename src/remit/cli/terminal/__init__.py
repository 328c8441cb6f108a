"""Terminal output: colour, screen, views, pager."""
