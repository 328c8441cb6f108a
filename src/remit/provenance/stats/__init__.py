"""`remit stats`: whose lines there are, and how long they stand."""
