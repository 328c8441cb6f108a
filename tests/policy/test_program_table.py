"""The table of shell programs: one row a program."""

from collections import Counter

from remit.policy.commands.programs.row import ROLES
from remit.policy.commands.programs.table import FAMILIES, PROGRAMS
from remit.policy.commands.words import word_set


def test_a_program_has_one_row() -> None:
    times = Counter(name for family in FAMILIES for name in family)
    assert [name for name, number in times.items() if number > 1] == []


def test_every_role_is_known() -> None:
    assert {role for program in PROGRAMS.values() for role in word_set(program.roles)} == word_set(ROLES)
