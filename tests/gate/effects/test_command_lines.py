"""What changed while an opaque command ran is nobody's, but for what the command's own text proves."""

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gate.driving import Agent, records, uncontained
from remit.core.call import SessionKey, ToolCall
from remit.core.diff.contents import ContentVersion, Difference, Hunk, hash_git_blob, sha256
from remit.core.record import KEY
from remit.gate.effects.call_text import MAX_SEARCHES, MAX_TEXT_BYTES, CommandText
from remit.gate.effects.own_lines import find_unproved_in_file, text_of_call
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.workspace.observe.observation import Change
from remit.workspace.safe_files import ObservedFile

PERSONS = "the_person_typed_this = 1\n"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return uncontained(repository, home)


def ran(agent: Agent, command: str, *, person: dict[str, str] | None = None) -> dict[str, Any]:
    """The command runs, and meanwhile a person saves files; what the newest record says of each file."""
    before = agent.ask("Bash", command=command)
    subprocess.run(["sh", "-c", command], cwd=agent.cwd, check=False, capture_output=True)
    for path, text in (person or {}).items():
        (agent.cwd / path).write_text(text)
    agent.tell("Bash", before["call_id"], {"stdout": ""}, command=command)
    return records(agent.cwd, "mutation")[-1]


def unproved(record: dict[str, Any]) -> dict[str, list[list[int]] | None]:
    return {file["path"]: file.get("unproved") for file in record["metadata"][KEY]["files"]}


def blamed(root: Path, path: str) -> list[BlamedLine]:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        return Blamer(gate.workspace, index, gate.contents).blame(path)


def test_what_a_person_saves_while_a_silent_command_runs_is_at_most_likely_the_agents(agent: Agent) -> None:
    record = ran(agent, "python3 -c 'pass'", person={"src/own.py": PERSONS})
    assert unproved(record) == {"src/own.py": [[1, 1]]}
    [line] = blamed(agent.cwd, "src/own.py")
    assert (line.origin, line.grade, line.session_id) == ("ai", "likely", "session-1")


def test_what_a_person_saves_in_an_open_editor_names_the_command_as_a_candidate_only(agent: Agent) -> None:
    (agent.cwd / "src/.own.py.swp").write_text("")
    ran(agent, "python3 -c 'pass'", person={"src/own.py": PERSONS})
    [line] = blamed(agent.cwd, "src/own.py")
    assert (line.origin, line.agent, line.session_id, line.intent_id) == ("unknown", None, None, None)
    [one] = line.candidates
    assert (one.agent, one.session_id, one.intent_id) == ("claude-code", "session-1", "INT-001")
    assert one.command == "python3 -c 'pass'"


def test_the_record_names_the_session_as_a_candidate_only(agent: Agent) -> None:
    record = ran(agent, "python3 -c 'pass'", person={"src/own.py": PERSONS})
    [conversation] = record["files"][0]["conversations"]
    assert conversation["contributor"] == {"type": "unknown"}
    assert conversation["url"] == "urn:remit:session:session-1"
    assert (conversation["ranges"][0]["start_line"], conversation["ranges"][0]["end_line"]) == (1, 1)


def test_the_window_is_judged_as_before(agent: Agent) -> None:
    record = ran(agent, "python3 -c 'pass'", person={"src/own.py": PERSONS})["metadata"][KEY]
    assert (record["session_id"], record["intent_id"], record["in_scope"], record["covered"]) == (
        "session-1",
        "INT-001",
        True,
        False,
    )


def test_a_test_that_runs_may_be_saved_meanwhile(agent: Agent) -> None:
    record = ran(agent, "python3 -m this_is_no_module src/app.py", person={"src/app.py": PERSONS})
    assert unproved(record) == {"src/app.py": [[1, 1]]}


NAMED = [
    "python3 -c \"open('src/x.py', 'w').write('a = ' + str(3 * 7))\"",
    "python3 - <<'E'\nfrom pathlib import Path\np = Path('src/x.py')\np.write_text('a = %d' % (3 * 7))\nE",
    "python3 -c 'print(3 * 7)' > src/x.py",
    "cd src && python3 -c 'print(3 * 7)' > x.py",
    "python3 -c pass; printf 'v1\\n' > src/x.py",
]


@pytest.mark.parametrize("command", NAMED)
def test_a_file_that_the_text_names_as_its_output_is_the_agents(agent: Agent, command: str) -> None:
    assert unproved(ran(agent, command)) == {"src/x.py": None}
    assert {line.origin for line in blamed(agent.cwd, "src/x.py")} == {"ai"}


def test_who_copies_a_file_wrote_none_of_its_lines(agent: Agent) -> None:
    assert unproved(ran(agent, "cp src/app.py src/x.py; python3 -c pass")) == {"src/x.py": None}
    assert {line.origin for line in blamed(agent.cwd, "src/x.py")} == {"unknown"}


def test_lines_that_stand_in_the_text_are_the_agents_and_the_rest_is_likely_at_most(agent: Agent) -> None:
    command = "cat > src/x.py <<'E'\ndef compute_the_total(parts):\n    return sum(parts)\nE\npython3 -c pass"
    text = f"def compute_the_total(parts):\n    return sum(parts)\n{PERSONS}    return None\n"
    record = ran(agent, command, person={"src/x.py": text})
    assert unproved(record) == {"src/x.py": [[3, 4]]}
    assert [line.grade for line in blamed(agent.cwd, "src/x.py")] == ["exact", "exact", "likely", "likely"]
    kinds = [(c["contributor"]["type"], len(c["ranges"])) for c in record["files"][0]["conversations"]]
    assert kinds == [("ai", 1), ("unknown", 1)]


def test_a_word_that_sed_puts_in_is_the_agents(agent: Agent) -> None:
    agent.write("src/x.py", "value = old_name(1)\nother = 2\n")
    command = "sed -i 's/old_name/new_name/' src/x.py && python3 -c pass"
    record = ran(agent, command, person={"src/x.py": "value = new_name(1)\nother = 3000\n"})
    assert unproved(record) == {"src/x.py": [[2, 2]]}


def test_an_open_step_keeps_the_authors_of_the_lines_that_stay(agent: Agent) -> None:
    agent.write("src/x.py", "def first_of_the_agent():\n    return 1\n")
    ran(agent, "python3 -c 'pass'", person={"src/x.py": "def first_of_the_agent():\n    return 1\n" + PERSONS})
    assert [line.grade for line in blamed(agent.cwd, "src/x.py")] == ["exact", "exact", "likely"]


def test_each_of_two_candidates_is_named_with_what_is_known_of_it(agent: Agent, home: Path) -> None:
    second = Agent(agent.cwd, home, "session-2")
    second.select()
    one, two = agent.ask("Bash", command="make one"), second.ask("Bash", command="make two")
    (agent.cwd / "src" / "new.py").write_text("x\n")
    agent.tell("Bash", one["call_id"], {"stdout": ""}, command="make one")
    second.tell("Bash", two["call_id"], {"stdout": ""}, command="make two")
    [line] = blamed(agent.cwd, "src/new.py")
    assert (line.origin, line.agent) == ("unknown", None)
    assert [(c.session_id, c.agent, c.intent_id, c.command) for c in line.candidates] == [
        ("session-1", "claude-code", "INT-001", "make one"),
        ("session-2", "claude-code", "INT-001", None),
    ]


def test_a_file_tool_is_believed(agent: Agent) -> None:
    agent.write("src/x.py", "a = 1\n")
    assert unproved(records(agent.cwd, "mutation")[-1]) == {"src/x.py": None}


def seen(text: bytes) -> ObservedFile:
    return ObservedFile(ContentVersion(sha256(text), hash_git_blob(text), text.count(b"\n"), len(text)), text)


def opened(command: str, after: bytes) -> tuple[tuple[int, int], ...]:
    """What is left open of a new file, where the command does not name it."""
    call = ToolCall("a", SessionKey("s"), "Bash", "execute", "/", command=command)
    known = Difference((Hunk(0, 0, 1, after.count(b"\n")),))
    return find_unproved_in_file(Change("x", None, seen(after)), known, CommandText(text_of_call(call)), None)


TOLD = [
    ("./gen 'def compute_the_total():\\n    pass\\n'", b"def compute_the_total():\n    pass\n"),
    ("patch <<'E'\n+def compute_the_total():\n+    pass\nE", b"def compute_the_total():\n    pass\n"),
    ('./gen "x = \\"a_distinctive_text\\""', b'x = "a_distinctive_text"\n'),
]


PLAIN = """\
--- a/src/x.py
+++ b/src/x.py
@@ -1,2 +1,4 @@
 first_of_all = 1
+try:
+    pass
 last_of_all = 2
"""


@pytest.mark.parametrize(
    "command", [f"git apply <<'E'\n{PLAIN}E", f"patch -p1 <<'E'\n{PLAIN}E"], ids=["git apply", "patch"]
)
def test_plain_lines_that_a_diff_in_the_text_adds_are_the_agents(agent: Agent, command: str) -> None:
    agent.write("src/x.py", "first_of_all = 1\nlast_of_all = 2\n")
    assert unproved(ran(agent, command)) == {"src/x.py": None}


def test_not_one_more_than_it_adds(agent: Agent) -> None:
    agent.write("src/x.py", "first_of_all = 1\nlast_of_all = 2\n")
    persons = "first_of_all = 1\ntry:\n    pass\nlast_of_all = 2\n    pass\n"
    left = {"src/x.py": [[2, 3], [5, 5]]}
    assert unproved(ran(agent, f"git apply <<'E'\n{PLAIN}E", person={"src/x.py": persons})) == left


@pytest.mark.parametrize(
    "command",
    [
        "python3 - <<'E'\nfrom pathlib import Path\np = Path('src/x.py')\ns = p.read_text()\n"
        """s = s.replace("a = 1", "a = f('x')")\np.write_text(s)\nE""",
        "python3 - <<'E'\np = 'src/x.py'\ns = open(p).read()\n"
        "s = s.replace('''a = 1''', '''a = f('x')''')\nopen(p, 'w').write(s)\nE",
        "sed -i '1c\\\na = f(\"x\")' src/x.py",
        "sed -i '1c\\\na = f(3)\\\nb = g(3)' src/x.py",
    ],
    ids=["a string in other quotes", "a long string", "a line of sed's", "two lines of sed's"],
)
def test_so_are_the_strings_of_a_program_with_quotes_in_them(agent: Agent, command: str) -> None:
    agent.write("src/x.py", "a = 1\nother_line_of_this = 2\n")
    assert unproved(ran(agent, command)) == {"src/x.py": None}


def test_lines_that_a_person_puts_in_as_the_text_has_them_are_not_all_the_agents(agent: Agent) -> None:
    agent.write("src/x.py", "first_of_all = 1\nlast_of_all = 2\n")
    put = "    certificate: CertificateTypes = None,\n"
    program = f"s = s.replace('last', '''{put}last''')"
    command = f"python3 - <<'E'\np = open('src/x.py')\ns = p.read()\n{program}\nopen('src/x.py', 'w').write(s)\nE"
    persons = f"{put}first_of_all = 1\n{put}last_of_all = 2\n"
    assert unproved(ran(agent, command, person={"src/x.py": persons})) == {"src/x.py": [[1, 1], [3, 3]]}


def test_nor_is_one_that_the_text_has_elsewhere(agent: Agent) -> None:
    agent.write("src/x.py", "def of_all():\n    return None\n")
    text = "def of_all():\n    return None\n\n\ndef sort_all_shelves():\n    pass\n"
    persons = f"{text}    return None\n"
    left = unproved(ran(agent, f"cat > src/x.py <<'E'\n{text}E", person={"src/x.py": persons}))
    assert left == {"src/x.py": [[7, 7]]}


def test_a_program_that_reads_a_file_before_it_writes_it_replaces_parts(agent: Agent) -> None:
    agent.write("src/x.py", "go 1.12\nsome_requirement v1.0.0\n")
    command = "python3 - <<'E'\nfrom pathlib import Path\np = Path('src/x.py')\n"
    command += "p.write_text(p.read_text().replace('1.12', '1.13'))\nE"
    record = ran(agent, command, person={"src/x.py": "go 1.13\nsome_requirement v2.0.0\n"})
    assert unproved(record) == {"src/x.py": [[2, 2]]}


@pytest.mark.parametrize(("named", "left"), [("src/x.py", [[1, 1]]), ("x.py", None)], ids=["there", "elsewhere"])
def test_a_line_that_a_diff_adds_to_one_file_is_no_proof_in_another(
    agent: Agent, named: str, left: list[list[int]] | None
) -> None:
    agent.write("src/x.py", "if TYPE_CHECKING:\n    pass\n")
    agent.write("src/y.py", "if TYPE_CHECKING:\n    import re\n")
    diff = "@@ -1,2 +1,2 @@\n-if TYPE_CHECKING:\n+if TYPE_CHECKING:  # pragma: no_cover_of_typing\n     pass\n"
    command = f"patch -p1 --directory=. <<'E'\n--- a/{named}\n+++ b/{named}\n{diff}E"
    new = "if TYPE_CHECKING:  # pragma: no_cover_of_typing\n"
    person = {"src/x.py": f"{new}    pass\n", "src/y.py": f"{new}    import re\n"}
    assert unproved(ran(agent, command, person=person))["src/y.py"] == left


WHOLE_LINES = {
    "program": "python3 - <<'E'\nfrom pathlib import Path\np = Path('src/x.py')\ns = p.read_text()\n"
    "s = s.replace('''def of(s):\n    return str(s)''', '''def of(s):\n    return unicode(s)''')\np.write_text(s)\nE",
    "sed": "sed -i -e '2c\\\n    return unicode(s)' src/x.py && python3 -c pass",
}


@pytest.mark.parametrize("command", WHOLE_LINES.values(), ids=WHOLE_LINES)
def test_a_word_of_a_line_that_the_text_says_whole_is_put_into_no_other(agent: Agent, command: str) -> None:
    agent.write("src/x.py", "def of(s):\n    return str(s)\n\nif isinstance(sep, str):\n    pass\n")
    after = "def of(s):\n    return unicode(s)\n\nif isinstance(sep, unicode):\n    pass\n"
    assert unproved(ran(agent, command, person={"src/x.py": after})) == {"src/x.py": [[4, 4]]}


@pytest.mark.parametrize(("after", "left"), [("a\n\nb\n\n", [[2, 2], [4, 4]]), ("a\nb\n\n", [[3, 3]])])
def test_empty_lines_alone_are_anybodys(agent: Agent, after: str, left: list[list[int]]) -> None:
    agent.write("src/x.py", "a\nb\n")
    assert unproved(ran(agent, "python3 -c pass", person={"src/x.py": after})) == {"src/x.py": left}


def test_an_empty_line_beside_those_of_the_text_is_the_agents(agent: Agent) -> None:
    agent.write("src/x.py", "first_of_all = 1\n")
    text = "first_of_all = 1\nsorted_shelves = sorted(shelves)\n\n"
    assert unproved(ran(agent, "./gen 'sorted_shelves = sorted(shelves)'", person={"src/x.py": text})) == {
        "src/x.py": None
    }


@pytest.mark.parametrize("text", [b'\\"', b"'''\"\"\"", b"'\n"], ids=["escaped", "long", "open"])
def test_a_text_of_quotes_is_read_in_no_time(text: bytes) -> None:
    began = time.thread_time()
    CommandText(text * (MAX_TEXT_BYTES // len(text)))
    assert time.thread_time() - began < 5


@pytest.mark.parametrize(("command", "after"), TOLD)
def test_the_text_may_hold_lines_in_the_forms_that_programs_take(command: str, after: bytes) -> None:
    assert opened(command, after) == ()


HASHED = "example.org/printed/handbook v1.19.2 h1:PmFC1S6h8ljIz\nexample.org/printed/handbook v1.19.2/go.mod h1:XBu"


@pytest.mark.parametrize(
    ("command", "whose"),
    [
        (f"cat > go.sum <<'E'\n{HASHED}\nE", "anybody's"),
        (f"patch -p1 <<'E'\n-{HASHED[:36]}\nE", "anybody's"),
        (f"echo {HASHED[:36]} >> go.mod", "the agent's"),
        (f"sed -i '3a {HASHED[:36]}' go.mod", "the agent's"),
        (f"cat > go.sum <<'E'\n{HASHED}\nE\nprintf '{HASHED[:36]}\\n' >> go.mod", "the agent's"),
    ],
)
def test_a_line_that_another_of_the_text_begins_with_is_proved_by_its_own_words_only(command: str, whose: str) -> None:
    assert opened(command, HASHED[:36].encode() + b"\n") == (((1, 1),) if whose == "anybody's" else ())


def test_what_anybody_would_write_is_proved_by_no_text() -> None:
    assert opened("./gen 'try:\\n    return None\\n'", b"try:\n    return None\n") == ((1, 2),)


def test_what_stood_there_before_is_proved_by_no_text() -> None:
    old, new = b"compute_the_total()\n", b"compute_the_total()\ncompute_the_total()\n"
    change, known = Change("x", seen(old), seen(new)), Difference((Hunk(1, 0, 2, 1),))
    assert find_unproved_in_file(change, known, CommandText(b"compute_the_total()"), None) == ((2, 2),)


def test_a_text_of_many_equal_lines_takes_no_long() -> None:
    text = b"}\n" * 200_000
    assert find_unproved_in_file(
        Change("x", None, seen(text)), Difference((Hunk(0, 0, 1, 200_000),)), CommandText(text), None
    )


def test_a_word_that_was_put_into_many_lines_is_looked_for_once() -> None:
    before = b"".join(b"value_%d = old\n" % n for n in range(5_000))
    after = before.replace(b"old", b"recently")
    change, known = Change("x", seen(before), seen(after)), Difference((Hunk(1, 5_000, 1, 5_000),))
    assert find_unproved_in_file(change, known, CommandText(b"sed -i s/old/recently/ x"), "edited") == ()


def test_beyond_a_bound_nothing_more_is_looked_for() -> None:
    said = CommandText(b"sed -i -f rules x # " + b"filler " * 30_000)
    old = [b"name_%d" % n for n in range(20_000)]
    assert (
        list(said.find_replaced_lines(old, [b"other%d" % n for n in range(20_000)], [Hunk(1, 20_000, 1, 20_000)])) == []
    )
    assert len(said.replaced_cache) == MAX_SEARCHES


def test_a_long_block_of_equal_lines_is_found_as_one() -> None:
    text = b"call_of_many_times()\n" * 1_000
    assert (
        find_unproved_in_file(
            Change("x", None, seen(text)), Difference((Hunk(0, 0, 1, 1_000),)), CommandText(text), None
        )
        == ()
    )


WALKED = """\
def walk_through_everything(rows):
    try:
        rows.load()
{person}    except OSError:
        pass
    for row in rows:
        emit(row)
    return None
"""


def test_plain_lines_that_are_the_texts_only_together_are_the_agents(agent: Agent) -> None:
    command = f"cat > src/app.py <<'E'\ndef main():\n    return 1\n{WALKED.format(person='')}E\npython3 -c pass"
    text = "def main():\n    return 1\n" + WALKED.format(person=PERSONS)
    assert unproved(ran(agent, command, person={"src/app.py": text})) == {"src/app.py": [[6, 6]]}


def test_so_are_those_that_a_diff_in_the_text_adds_beside_a_persons(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    return 1\n")
    added = "".join(f"+{line}\n" for line in WALKED.format(person="").split("\n")[:-1])
    diff = (
        f"--- a/src/app.py\n+++ b/src/app.py\n@@ -1,2 +1,{2 + added.count(chr(10))} @@\n def main():\n     return 1\n"
    )
    text = "def main():\n    return 1\n" + WALKED.format(person=PERSONS)
    found = unproved(ran(agent, f"patch -p1 <<'E'\n{diff}{added}E", person={"src/app.py": text}))
    assert found == {"src/app.py": [[6, 6]]}


def test_in_a_file_that_the_text_does_not_name_they_are_anybodys(agent: Agent) -> None:
    command = f"python3 -c pass <<'E'\n{WALKED.format(person='')}E"
    text = "def main():\n    return 1\n" + WALKED.format(person=PERSONS)
    assert unproved(ran(agent, command, person={"src/app.py": text})) == {"src/app.py": [[6, 11]]}
