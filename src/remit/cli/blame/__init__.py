"""Commands that explain lines: blame, why, stats."""
