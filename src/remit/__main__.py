"""`python -m remit`: the command, by the name of the package."""

from remit.cli import main

main()
