"""The table of shell programs: one row a program, in the module of its family.

Left out on purpose, since they run what the repository or a file says: `make`, package managers, `patch` and
`git apply` (the names stand in the patch), `rename`, `vim`, `ed`, `cargo`, `go`, `gawk -i` (looks for its library in
the present folder), `man`, `nm` (loads plugins) and `ss` (`-K` kills).
"""

from collections.abc import Mapping

from remit.policy.commands.parse.options import word_set
from remit.policy.commands.programs import (
    archives,
    compilers_formatters,
    converters,
    files,
    git,
    interpreters,
    network,
    services,
    shell,
    system,
    text,
)
from remit.policy.commands.programs.row import Program

FAMILIES = (
    shell.PROGRAMS,
    files.PROGRAMS,
    text.PROGRAMS,
    archives.PROGRAMS,
    compilers_formatters.PROGRAMS,
    interpreters.PROGRAMS,
    converters.PROGRAMS,
    git.PROGRAMS,
    network.PROGRAMS,
    services.PROGRAMS,
    system.PROGRAMS,
)

PROGRAMS: Mapping[str, Program] = {name: program for family in FAMILIES for name, program in family.items()}

UNLISTED = Program()
"""The row of a program that is not in the table."""


def find_program(name: str) -> Program:
    return PROGRAMS.get(name, UNLISTED)


def has_role(name: str, *roles: str) -> bool:
    return not word_set(find_program(name).roles).isdisjoint(roles)
