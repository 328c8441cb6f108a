"""Fleet database: its tables, the rows of the board, notes and past of attempts, and causes of an unusable database."""
