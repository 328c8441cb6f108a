"""Fleet database: its tables, the rows of the board, and the claims that take write sets."""
