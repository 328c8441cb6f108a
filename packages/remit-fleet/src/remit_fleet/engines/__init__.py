"""Engines: the deeds of a board, on rows in memory and on the fleet database."""
