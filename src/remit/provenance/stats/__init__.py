"""Statistics: the authors of the lines at HEAD, and how long recorded lines live."""
