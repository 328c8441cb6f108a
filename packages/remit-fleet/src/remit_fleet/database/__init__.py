"""Fleet database: its tables, the rows of the board, notices, past attempts, and troubles of the connection."""
