"""A common line has no author if only its text speaks for one."""

from pathlib import Path

import pytest

from gate.driving import Agent, governed
from provenance.test_blame import ME, commit, sessions
from provenance.test_carried_attributions import BASE, by, contents_by_name, of, origin, wrote
from remit.core.diff.contents import Hunk
from remit.gate.effects.call_text import CommandText
from remit.provenance.origins.carried_attributions import carry_attributions, find_ambiguous_kept_lines
from remit.provenance.origins.line_matches import match_but_for_layout
from remit.provenance.origins.recorded_steps import HistoryEntry, HistoryStep

AGENTS = """\
def tabulated_measurements(rows):
    if rows is None:
        return None
    widest_measurement = max(rows)
    return widest_measurement
"""
PERSONS = """\
def tabulated_measurements(rows):
    smallest_allocation = min(rows)
    print(smallest_allocation)
    return None
    return widest_measurement
"""


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    return found


def test_a_common_line_reindented_among_a_persons_lines_is_not_the_agents(agent: Agent) -> None:
    agent.write("src/new.py", AGENTS)
    commit(agent.cwd)
    (agent.cwd / "src" / "new.py").write_text(PERSONS)
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/new.py") == [ME, None, None, None, ME]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (of("        return None", "    a = 1"), of("    b = 2", "    return None"), {}),
        (of("    if a is None:", "        return None"), of("    fresh()", "        if a is None:"), {}),
        (of("\tdo_it()", "\treturn None"), of("    do_it()", "    return None"), {0: 0, 1: 1}),
        (of("        return None"), of("    return None"), {}),
        (of("one"), of("  one"), {0: 0}),
        (of("\tmeasured_widths = 1", "\tpass", "x"), of("  measured_widths = 1", "  pass", "y"), {0: 0, 1: 1}),
    ],
)
def test_only_distinctive_lines_match_across_layouts(old: list[bytes], new: list[bytes], found: dict[int, int]) -> None:
    assert match_but_for_layout(old, new) == found


BLOCK = of("    total_allocation = sum(rows)", "    except OSError:", "        pass", "    return None")


@pytest.mark.parametrize(("left", "by_whom"), [(BLOCK[1:], None), (BLOCK[:3], "r1"), ([*BLOCK[:2], BLOCK[3]], "r1")])
def test_across_a_gap_common_lines_do_not_carry_a_block_without_its_distinctive_line(
    left: list[bytes], by_whom: str | None
) -> None:
    versions = {"P": BASE, "R": [*BASE, *BLOCK], "V": [*BASE, b"put_there_by_somebody()", *left]}
    assert origin(versions, [wrote(1, "P", "R")]) == [*[None] * 5, *[by_whom] * 3]


def test_without_a_gap_common_lines_stay_attributed() -> None:
    versions = {"P": BASE, "R": [*BASE, *BLOCK], "V": [*BASE, b"put_there_by_somebody()", *BLOCK[1:]]}
    seen = HistoryEntry(2, "r2", "R", "V", observed=True)
    assert origin(versions, [wrote(1, "P", "R"), seen]) == [*[None] * 4, "r2", *["r1"] * 3]


IMPORT = b"import sys"


@pytest.mark.parametrize(
    ("agents", "persons", "by_whom"),
    [
        # The person changed nothing of the agent's.
        ([BASE[0], IMPORT, *BASE[1:]], [BASE[0], IMPORT, *BASE[1:], b"put_there_by_somebody()"], "r1"),
        # The person threw the rest of the proposal away: the line may be the person's own.
        ([BASE[0], IMPORT, *BASE[1:], *BLOCK], [BASE[0], IMPORT, *BASE[1:], b"put_there_by_somebody()"], None),
        # The person changed the line beside it.
        ([BASE[0], IMPORT, *BASE[1:]], [BASE[0], IMPORT, b"put_there_by_somebody()", *BASE[2:]], None),
    ],
)
def test_a_common_line_stays_the_agents_if_a_person_changes_none_of_the_calls_lines(
    agents: list[bytes], persons: list[bytes], by_whom: str | None
) -> None:
    assert origin({"P": BASE, "R": agents, "V": persons}, [wrote(1, "P", "R")])[1] == by_whom


OLD = of("def measured_widths(rows):", "    }", "    return None", "", "    return smallest_allocation")
NEW = of(
    "def measured_widths(rows):",
    "    }",
    "    return no_such_measurement",
    "def tabulated(rows):",
    "    return None",
    "",
    "",
    "    return smallest_allocation",
)


def test_a_common_line_kept_between_unproved_lines_is_not_proved() -> None:
    hunks = (Hunk(2, 0, 3, 2), Hunk(3, 0, 6, 1))
    steps = [
        HistoryStep(None, "A", "agent"),
        HistoryStep("A", "B", "command", hunks=hunks, unproved=((3, 4), (6, 6))),
    ]
    found = carry_attributions(steps, contents_by_name({"A": OLD, "B": NEW}))
    assert by(found) == ["agent", "agent", *["command"] * 4, "agent", "agent"]
    assert [label.proved for label in found if label] == [True, True, False, False, False, False, True, True]


@pytest.mark.parametrize(
    ("unproved", "found"),
    [(((3, 4),), [4]), (((6, 6),), []), ((), []), (((1, 2),), [])],
)
def test_a_kept_line_is_ambiguous_only_beside_unproved_lines(
    unproved: tuple[tuple[int, int], ...], found: list[int]
) -> None:
    assert list(find_ambiguous_kept_lines(OLD, NEW, (Hunk(2, 0, 3, 2), Hunk(3, 0, 6, 1)), unproved)) == found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (of("a", "    return None", "c"), of("x", "    return None", "y"), [1]),
        (of("a", "    total_allocation = 1", "c"), of("x", "    total_allocation = 1", "y"), []),
        (of("f(a, b)", "    return None", "g(c, d)"), of("f(a,b)", "    return None", "g(c,d)"), []),
    ],
)
def test_a_distinctive_or_reformatted_line_is_not_ambiguous(
    old: list[bytes], new: list[bytes], found: list[int]
) -> None:
    assert list(find_ambiguous_kept_lines(old, new, (Hunk(1, 1, 1, 1), Hunk(3, 1, 3, 1)), ((1, 1), (3, 3)))) == found


def function(*names: str) -> list[bytes]:
    head, *calls = names
    body = [f"    {name} = {head}(rows)" for name in calls]
    return of(f"def {head}(rows):", *body, "    try:", "        rows.flush()", "    except OSError:", "        pass")


FIRST = function("tabulated", "total_allocation", "widest_column", "deepest_nesting")
SECOND = function("printed", "smallest_margin", "measured_widths", "longest_line", "pages_left")
PUT_FOR_IT = function("written_by_hand", "narrowest_gap", "paper_size", "ink_left", "pages")


@pytest.mark.parametrize("below", [[], of("", "def there_before(measured_widths):", "    return measured_widths")])
def test_the_common_end_of_a_function_replaced_by_a_person_is_not_the_agents(below: list[bytes]) -> None:
    versions = {"P": [*BASE, *below], "R": [*BASE, *FIRST, b"", *SECOND, *below]}
    versions["V"] = [*BASE, *FIRST, b"", *PUT_FOR_IT, *below]
    found = origin(versions, [wrote(1, "P", "R")])
    assert found[len(BASE) :] == [*["r1"] * (len(FIRST) + 1), *[None] * (len(PUT_FOR_IT) + len(below))]


@pytest.mark.parametrize("below", [[], of("", "def there_before(measured_widths):", "    return measured_widths")])
def test_the_common_end_of_a_replacement_of_equal_length_is_not_the_agents(below: list[bytes]) -> None:
    second = function("printed", "smallest_margin", "measured_widths", "longest_line")
    persons = function("written_by_hand", "narrowest_gap", "paper_size", "ink_left")
    versions = {"P": [*BASE, *below], "R": [*BASE, *FIRST, b"", *second, *below]}
    versions["V"] = [*BASE, *FIRST, b"", *persons, *below]
    found = origin(versions, [wrote(1, "P", "R")])
    assert found[len(BASE) :] == [*["r1"] * (len(FIRST) + 1), *[None] * (len(persons) + len(below))]


def test_the_end_of_a_function_with_one_changed_line_stays_the_agents() -> None:
    versions = {"P": BASE, "R": [*BASE, *FIRST, b"", *SECOND]}
    versions["V"] = [*BASE, *FIRST, b"", *SECOND[:6], b"        rows.narrow()", *SECOND[7:]]
    found = origin(versions, [wrote(1, "P", "R")])
    assert found[len(BASE) :] == [*["r1"] * (len(FIRST) + 7), None, *["r1"] * 2]


def test_a_quote_at_the_end_of_a_line_is_not_an_empty_line() -> None:
    said = CommandText(b"cat > f <<'END'\ndef measured_widths(rows):\n\n    return rows\nEND")
    new = of("", "def measured_widths(rows):", "", "    return rows")
    assert list(said.find_runs_in_text(new, range(1, 5), ())) == [2, 3, 4]


def test_a_common_line_behind_an_insertion_loses_its_attribution_against_contrary_evidence() -> None:
    block = of(
        "def measured_widths(rows):", "    total_allocation = sum(rows)", "    smallest_margin = 0", "    return None"
    )
    put = of("def tabulated():", "    fresh()")
    versions = {"P": BASE, "R": [*BASE, *block], "V": [*BASE, *block[:3], *put, block[3]]}
    assert origin(versions, [wrote(1, "P", "R")], settled=["R"]) == [*[None] * 4, *["r1"] * 3, None, None, None]
