"""`remit verify`: whether the records hold, and what they say of a range."""
