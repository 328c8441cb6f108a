"""Fleet database: its tables, the rows of the board, and the claims of write sets."""
