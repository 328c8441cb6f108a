"""The table of shell programs: one row a program, in the module of its family; columns in `row.py`."""
