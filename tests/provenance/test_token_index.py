"""A line with an unrecorded word is ruled out; a line that a record may have added never is."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from conftest import run_git
from gate.driving import Agent, governed
from remit.core.diff.contents import Hunk, find_distinctive_words, has_distinctive_word, has_unknown_word
from remit.gate.gate import Gate
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Index, PutMarks
from remit.provenance.blame.blame import Blamer
from remit.provenance.origins.line_matches import tokens_without_commas
from remit.provenance.origins.token_index import TokenIndex, marks_of_change, marks_of_lines, word_marks

WORDS = ["alpha", "beta_value", "gamma", "return", "x1", "42"]
lines = st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=8)


def change(*hunks: Hunk) -> RecordedChange:
    return RecordedChange(1, "r1", "", "mutation", "a.py", before_blob="old", after_blob="new", hunks=hunks)


@given(lines, st.integers(0, 7), st.integers(0, 4))
def test_every_word_of_an_added_line_is_indexed(texts: list[str], at: int, count: int) -> None:
    put = texts[at : at + count]
    found = marks_of_change(change(Hunk(at, 0, at + 1, len(put))), "\n".join(texts).encode())
    assert found.words is not None
    marks = {int.from_bytes(found.words[i : i + 4], "little") for i in range(0, len(found.words), 4)}
    assert marks == {mark for text in put for mark in word_marks(text.encode())}
    assert all(len(word_marks(text.encode())) == len(find_distinctive_words(text.encode())) for text in texts)


@given(
    st.lists(st.sampled_from([*WORDS, "_own", "2abc", "Return", "naïve", "é_x"]), max_size=5),
    st.binary(max_size=9),
    st.data(),
)
def test_a_ruled_out_line_has_an_unrecorded_word(words: list[str], more: bytes, data: st.DataObject) -> None:
    line = b"(".join([*(word.encode() for word in words), more])
    put = data.draw(st.sets(st.sampled_from(word_marks(line)))) if word_marks(line) else set[int]()
    if has_unknown_word(line, put):
        assert not put.issuperset(word_marks(line))
    assert has_distinctive_word(line) == bool(find_distinctive_words(line))


def test_a_line_with_an_unrecorded_word_is_ruled_out() -> None:
    put = marks_of_lines([b"alpha = beta_value(42)"]).words
    assert not any(has_unknown_word(line, put) for line in (b"", b"return None", b"beta_value = alpha", b"7"))
    assert has_unknown_word(b"alpha = gamma", put)
    assert has_unknown_word(b"Alpha = beta_value", put)


def test_a_lost_content_rules_nothing_out(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", "alpha_first = 1\n")
    gate = Gate.open(repository)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        assert not TokenIndex(index, gate.contents).may_match_records("src/new.py", [b"beta_second = 2"])
        index.store_put_marks(PutMarks(c.id, c.path, None, None) for c in index.list_changes("src/new.py"))
        assert TokenIndex(index, gate.contents).may_match_records("src/new.py", [b"beta_second = 2"])
        assert TokenIndex(index, gate.contents).match_any_record([b"beta_second = 2"])[b"beta_second = 2"]


def test_beyond_the_size_limit_nothing_is_ruled_out_across_files(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", "alpha_first = 1\n")
    gate = Gate.open(repository)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        strange = [b"beta_second = 2"]
        assert not any(TokenIndex(index, gate.contents).match_any_record(strange).values())
        assert index.count_put_mark_bytes() > 8
        few = TokenIndex(index, gate.contents, most_bytes=8)
        assert few.match_any_record(strange) == dict.fromkeys(strange, True)
        assert few.lines_by_calls(strange)
        assert not few.may_match_records("src/new.py", strange)


def test_only_new_records_are_indexed(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", "alpha_first = 1\n")
    gate = Gate.open(repository)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        assert TokenIndex(index, gate.contents).may_match_records("src/new.py", [b"alpha_first"])
        assert index.list_changes_without_marks("src/new.py", 10) == ()
        agent.write("src/new.py", "alpha_first = 1\nbeta_second = 2\n")
        index.catch_up()
        assert len(index.list_changes_without_marks(None, 10)) == 1
        assert TokenIndex(index, gate.contents).may_match_records("src/new.py", [b"beta_second"])
        assert not TokenIndex(index, gate.contents).may_match_records("src/other.py", [b"beta_second"])


def test_the_answer_is_the_same_from_an_index_that_was_deleted(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    for number in range(4):
        lines = [f"line_of_agent_{n} = {n}" for n in range(number * 3)] + ["def by_hand():", "    pass"]
        agent.write("src/new.py", "\n".join(lines) + "\n")
        run_git(repository, "add", "-A")
        run_git(repository, "commit", "-q", "--allow-empty", "-m", "agent")
        (repository / "src" / "new.py").write_text("\n".join([f"# person_{number}", *lines]) + "\n")
        run_git(repository, "commit", "-q", "--allow-empty", "-am", "person")
    first = blame_lines(repository)
    again = blame_lines(repository)
    (repository / ".git" / "remit" / "index.db").unlink()
    assert first == again == blame_lines(repository)
    assert "ai" in {origin for origin, _ in first}


def blame_lines(root: Path) -> list[tuple[str, str | None]]:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        return [(line.origin, line.record) for line in Blamer(gate.workspace, index, gate.contents).blame("src/new.py")]


@given(
    st.lists(st.sampled_from(["a", "if", "foo(", ")", "x,", "= 1", '"q"', "  ", ","]), max_size=9).map(" ".join),
    st.data(),
)
def test_a_part_of_a_recorded_line_may_come_from_it(text: str, data: st.DataObject) -> None:
    put = marks_of_lines([text.encode()])
    words = text.split()
    first = data.draw(st.integers(0, len(words)))
    last = data.draw(st.integers(first, len(words)))
    assert put.runs_are_present(" ".join(words[first:last]).encode())
    rest = " ".join(words[first:])
    assert put.runs_are_present(f"{rest} more = of_it(1)".encode()) or not tokens_without_commas(rest.encode())
    assert put.may_contain_worded("".join(words).encode())


def test_a_line_with_the_same_words_in_another_order_is_not_expected() -> None:
    put = marks_of_lines([b"alpha = beta(gamma, 3)", b"delta = gamma(alpha, 4)"])
    assert put.may_contain_worded(b"    alpha = beta( gamma, 3 )")
    assert put.may_contain_worded(b"gamma, 3)")
    assert not put.may_contain_worded(b"gamma = alpha(beta, 3)")
    assert not put.may_contain_worded(b"alpha = beta(delta, 3)")


def test_changes_found_by_comparing_are_not_a_calls(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.send("SessionStart", source="startup")
    agent.write("src/new.py", "alpha_first = 1\n")
    (repository / "src" / "new.py").write_text("alpha_first = 1\nby_person = 2\n")
    agent.read("src/new.py")
    agent.write("src/new.py", "alpha_first = 1\nby_person = 2\ngamma_third = 3\n")
    gate = Gate.open(repository)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        put = TokenIndex(index, gate.contents)
        assert put.match_any_record([b"by_person = 2"])[b"by_person = 2"]
        assert not put.lines_by_calls([b"by_person = 2"])
        assert put.lines_by_calls([b"by_person = 2", b"gamma_third = 3"]) == [b"gamma_third = 3"]
