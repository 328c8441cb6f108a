"""`remit blame` beside real `git blame`: take our part out of the output, and git's is left byte for byte."""

import json
import random
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.running import data, remit, run
from conftest import run_git
from forked_commands import run_in_bytes
from gate.driving import Agent, governed
from remit.cli.blame.arguments import BlameUsageError, parse_arguments
from remit.cli.blame.blame import (
    BlameStyle,
    LineFilter,
    answer_question,
    read_question,
    render_blame,
)
from remit.core.call import MUTATION_CLASSES
from remit.provenance.blame.annotated_output import escape_for_terminal
from remit.provenance.blame.blamed_line import BlamedLine
from remit.workspace.place.workspace import find_git_root, workspace_at

NAMES = ("src/a.py", 'src/né \t"w.txt', "b.txt")
WORDS = ("def one(x):", "    return x", "", "value = 1", "    value = 1", "}", "\tfunc()", "caf\xe9", "end\r")


def commit(root: Path, message: str = "work") -> None:
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "--allow-empty", "-m", message)


def grown(root: Path, home: Path, seed: int) -> Path:
    """A repository of random edits, renames and merges, by a person and an agent."""
    chance = random.Random(seed)
    agent = Agent(governed(root), home)
    agent.select()
    for number in range(7):
        path = chance.choice(NAMES)
        lines = [chance.choice(WORDS) + str(chance.randrange(4)) for _ in range(chance.randrange(1, 9))]
        old = (root / path).read_bytes().decode("latin-1").split("\n") if (root / path).exists() else []
        at = chance.randrange(len(old) + 1)
        new = "\n".join([*old[:at], *lines, *old[at + chance.randrange(3) :]]).encode("latin-1")
        if path == "src/a.py" and chance.random() < 0.6:
            agent.read(path)
            agent.write(path, new)
        else:
            (root / path).write_bytes(new)
        if chance.random() < 0.8:
            commit(root, f"change {number} café")
    if (root / "b.txt").exists():
        commit(root)
        run_git(root, "mv", "b.txt", "moved.txt")
        commit(root, "moved")
    return root


def ours(root: Path, *words: str) -> bytes:
    question = read_question(words, workspace_at(root, find_git_root(root)), root)
    found = answer_question(question, fewer=False, only_lines=False)
    style = BlameStyle(quoted=found.settings.quotes_paths)
    return render_blame(question.arguments, found.git_output, found.lines, found.lines, style)


def theirs(root: Path, *words: str) -> bytes:
    return subprocess.run(["git", "-C", str(root), "blame", *words], check=True, capture_output=True).stdout


def stripped(out: bytes) -> bytes:
    return b"".join(raw + b"\n" for raw in out.split(b"\n")[:-1] if not raw.startswith(b"remit-"))


FLAGS: tuple[tuple[str, ...], ...] = (
    ("--porcelain",),
    ("--line-porcelain", "-w", "-M20", "-C", "-C"),
    ("--incremental",),
    ("--porc", "--root", "--first-parent"),
)


@pytest.mark.parametrize("seed", range(4))
def test_gits_part_of_a_porcelain_is_gits_byte_for_byte(repository: Path, home: Path, seed: int) -> None:
    root = grown(repository, home, seed)
    commit(root)
    files = [f for f in run_git(root, "ls-files", "-z").split("\0") if f and not f.startswith(".")]
    for number, path in enumerate(files):
        flags = FLAGS[(seed + number) % len(FLAGS)]
        found = ours(root, *flags, "--", path)
        assert stripped(found) == theirs(root, *flags, "--", path)
        assert found.count(b"remit-origin ") > 0 or not (root / path).read_bytes()


def test_a_name_is_quoted_as_git_is_told_to(repository: Path, home: Path) -> None:
    root = grown(repository, home, 9)
    (root / "src" / "é.py").write_text("one\n")
    commit(root)
    for setting in ("true", "false"):
        run_git(root, "config", "core.quotePath", setting)
        assert stripped(ours(root, "-p", "src/é.py")) == theirs(root, "-p", "src/é.py")


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.send("SessionStart", source="startup", model="some-model")
    found.select()
    found.write("src/app.py", "def main():\n    x = 2\n    return x\n")
    commit(found.cwd)
    return found


TEXTS: tuple[tuple[str, ...], ...] = (
    (),
    ("-s",),
    ("-e", "-f", "-n", "-l", "-t"),
    ("-c",),
    ("-b", "--abbrev=12", "--date=short"),
    ("-L2,2", "-L", "1,+1"),
    ("-L:main", "--root"),
    ("--date", "iso-strict", "-wfn"),
)


@pytest.mark.parametrize("flags", TEXTS, ids=" ".join)
def test_the_lines_for_people_are_gits_with_our_columns_after_the_commit(agent: Agent, flags: tuple[str, ...]) -> None:
    found, wanted = (out(agent.cwd, *flags, "src/app.py").split(b"\n") for out in (ours, theirs))
    assert len(found) == len(wanted)
    for mine, git in zip(found[:-1], wanted[:-1], strict=True):
        rest = iter(mine)
        assert all(sign in rest for sign in git)
        assert mine[:7] == git[:7]
    assert any("✦ claude-code".encode() in line for line in found) == any("x = 2" in g.decode() for g in wanted)


@pytest.mark.parametrize(
    "flags",
    [
        ("--incremental", "--porcelain"),
        ("--line-porcelain", "--porcelain"),
        ("-p", "--line-porcelain", "--no-incremental"),
        ("--incremental", "--show-stats", "--no-show-stats", "-sle", "--date=short"),
    ],
    ids=" ".join,
)
def test_of_several_forms_the_one_is_shown_that_git_takes(agent: Agent, flags: tuple[str, ...]) -> None:
    assert stripped(ours(agent.cwd, *flags, "src/app.py")) == theirs(agent.cwd, *flags, "src/app.py")


@pytest.mark.parametrize(
    "words",
    [
        ("-MC", "a"),
        ("-M20C", "a"),
        ("-wCCC", "a"),
        ("-L", "", "a"),
        ("--line-porcelain", "--no-porcelain", "a"),
        ("--contents=b", "--no-contents", "--no-root", "a"),
    ],
    ids=" ".join,
)
def test_options_are_taken_as_git_takes_them(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A score is the rest of its word, and an empty range is all lines."""
    root = tmp_path / "r"
    root.mkdir()
    run_git(root, "init", "-q")
    (root / "a").write_text("a line that is long enough to be found again\n" * 3)
    commit(root)
    (root / "b").write_text((root / "a").read_text())
    run_git(root, "mv", "a", "c")
    (root / "a").write_text((root / "b").read_text() + "more\n")
    commit(root)
    found, wanted = ours(root, *words).decode().split("\n"), theirs(root, *words).decode().split("\n")
    assert [row.replace(" · - -", "") for row in found] == wanted


@pytest.mark.parametrize("flags", [("--color-lines",), ("--color-by-age", "-s"), ("--color-lines", "-l")], ids=" ".join)
def test_our_columns_stand_after_the_commit_in_lines_that_git_paints(agent: Agent, flags: tuple[str, ...]) -> None:
    wanted = theirs(agent.cwd, *flags, "src/app.py").split(b"\n")[:-1]
    found = ours(agent.cwd, *flags, "src/app.py").split(b"\n")[:-1]
    assert any(raw.startswith(b"\x1b[") for raw in wanted)
    for mine, git in zip(found, wanted, strict=True):
        head = re.match(rb"(?:\x1b\[\d+m)?[\^0-9a-f]*", git)
        assert head
        assert mine.startswith(head[0])
        assert mine[head.end() :].lstrip().startswith(("✦".encode(), "·".encode()))
        assert mine.endswith(git[head.end() :])


def test_what_git_paints_a_terminal_shows_and_nothing_else() -> None:
    painted = b"\x1b[36mabc (\x1b[8mA Person 1) \x1b[mtext \x1b[2J"
    assert escape_for_terminal(painted) == b"\x1b[36mabc (\\x1b[8mA Person 1) \x1b[mtext \\x1b[2J"
    assert escape_for_terminal(b"abc (A Person 1) \x1b[2J") == b"abc (A Person 1) \\x1b[2J"


def test_a_file_of_another_repository_is_blamed_there_and_one_of_git_nowhere(agent: Agent) -> None:
    (agent.cwd / "sub").mkdir()
    run_git(agent.cwd / "sub", "init", "-q")
    (agent.cwd / "sub" / "its.txt").write_text("theirs\n")
    assert [line["origin"] for line in data(agent.cwd, "blame", "sub/its.txt")["lines"]] == ["unknown"]
    for file in (".git/config", "x" * 5000):
        assert "no such path" in json.loads(remit(agent.cwd, "blame", "--json", file, code=2))["error"]["message"]


@pytest.mark.parametrize(
    "words",
    [("--class", "NOPE", "src/app.py"), ("--min-grade=x", "src/app.py"), ("--intent",), ("--color=odd", "src/app.py")],
    ids=" ".join,
)
def test_words_that_do_not_fit_are_told_in_json_where_it_is_asked_for(agent: Agent, words: tuple[str, ...]) -> None:
    error = json.loads(remit(agent.cwd, "blame", "--json", *words, code=2))["error"]
    assert error["code"] == "USAGE"
    assert words[0].partition("=")[0] in error["message"]


def test_a_repository_without_a_work_tree_is_said_to_be_one(agent: Agent, tmp_path: Path) -> None:
    run_git(agent.cwd, "clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    answer = json.loads(remit(tmp_path / "bare.git", "blame", "--json", "HEAD", "--", "src/app.py", code=2))
    assert "has no work tree" in answer["error"]["message"]


def test_each_line_says_origin_agent_model_intent_and_grade(agent: Agent) -> None:
    out = ours(agent.cwd, "--line-porcelain", "-L2,2", "src/app.py").decode().split("\n")
    assert [line for line in out if line.startswith("remit-")] == [
        "remit-origin ai",
        "remit-agent claude-code",
        "remit-model some-model",
        "remit-intent INT-001",
        "remit-session session-1",
        "remit-grade exact",
    ]
    (line,) = data(agent.cwd, "blame", "-L2,2", "src/app.py")["lines"]
    assert {
        "line",
        "content",
        "commit",
        "origin",
        "agent",
        "model",
        "session_id",
        "intent_id",
        "class",
        "grade",
    } <= set(line)


def test_a_name_from_a_hostile_record_begins_no_header(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home, session="s\nfilename /etc/passwd")
    agent.select()
    agent.write("src/app.py", "one line of the agent\n")
    commit(agent.cwd)
    assert stripped(ours(agent.cwd, "-p", "src/app.py")) == theirs(agent.cwd, "-p", "src/app.py")


def test_only_lines_of_an_intent_are_shown(agent: Agent) -> None:
    assert [line["line"] for line in data(agent.cwd, "blame", "--intent", "INT-001", "src/app.py")["lines"]] == [2, 3]
    out = remit(agent.cwd, "blame", "--porcelain", "--intent", "INT-001", "src/app.py")
    assert [line for line in out.splitlines() if line.startswith("\t")] == ["\t    x = 2", "\t    return x"]
    for _ in range(2):
        done = run(agent.cwd, "blame", "--class", "AST_REFACTOR", "src/app.py")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "None of the 3 lines matches.\n")


@pytest.mark.parametrize(
    ("declared", "computed", "fits"),
    [
        ("BUG_FIX", "INTENT_EVOLUTION", {"BUG_FIX", "INTENT_EVOLUTION"}),
        ("BUG_FIX", None, {"BUG_FIX"}),
        ("BUG_FIX", "AST_REFACTOR", {"AST_REFACTOR"}),
        ("AST_REFACTOR", "INTENT_EVOLUTION", {"INTENT_EVOLUTION"}),
        (None, None, set[str]()),
    ],
)
def test_a_declared_class_counts_where_the_contents_do_not_refute_it(
    declared: str | None, computed: str | None, fits: set[str]
) -> None:
    line = BlamedLine(1, "", "c", mutation_class=computed, declared=declared)
    assert {name for name in MUTATION_CLASSES if LineFilter(mutation_class=name).matches(line)} == fits


def test_evidence_that_is_too_weak_is_not_believed(agent: Agent) -> None:
    path = agent.cwd / "src" / "app.py"
    path.write_text(path.read_text().replace("    x = 2", "        x = 2"))

    def origins(*words: str) -> list[str]:
        return [line["origin"] for line in data(agent.cwd, "blame", *words, "src/app.py")["lines"]]

    assert origins().count("ai") >= origins("--min-grade", "exact").count("ai")


def test_contents_and_reverse_and_files_in_no_commit_are_blamed(agent: Agent) -> None:
    text = "def main():\n    x = 2\nmine\n"
    done = run(agent.cwd, "blame", "--json", "--contents", "-", "src/app.py", typed=text)
    assert [n["origin"] for n in json.loads(done.stdout)["data"]["lines"]] == ["unknown", "ai", "unknown"]
    run_git(agent.cwd, "commit", "-q", "--allow-empty", "-m", "more")
    backwards = data(agent.cwd, "blame", "--reverse", "HEAD~1..HEAD", "src/app.py")["lines"]
    assert [n["origin"] for n in backwards] == ["unknown", "ai", "ai"]
    agent.write("src/fresh.py", "new here\n")
    assert "claude-code" in remit(agent.cwd, "blame", "src/fresh.py")
    assert "\tnew here" in remit(agent.cwd, "blame", "-p", "src/fresh.py")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("src/none.py",), "no such path"),
        (("-L9,9", "src/app.py"), "has only"),
        (("-L:nowhere", "src/app.py"), "no match"),
        (("--no-such-option", "src/app.py"), "unknown option"),
        (("nobranch", "--", "src/app.py"), "bad revision"),
        (("-w",), "name one file"),
        (("src/app.py", "-L"), "needs a value"),
        (("-p", "--abbrev=x", "src/app.py"), "numerical value"),
        (("--date=bad", "-l", "src/app.py"), "fatal: unknown date format bad"),
        (("--incremental", "--progress", "src/app.py"), "can't be used"),
        (("/etc/passwd",), "is not in"),
    ],
)
def test_what_git_refuses_is_told_in_gits_words(agent: Agent, words: tuple[str, ...], said: str) -> None:
    done = run(agent.cwd, "blame", *words)
    assert done.returncode == 2
    assert said in done.stderr
    if "--date=bad" not in words:  # how a date looks, JSON does not say
        assert said in json.loads(remit(agent.cwd, "blame", "--json", *words, code=2))["error"]["message"]


@pytest.fixture
def committed(agent: Agent) -> Path:
    run_git(agent.cwd, "add", "-A")
    run_git(agent.cwd, "commit", "-q", "--allow-empty", "-m", "all")
    return agent.cwd


def said(folder: Path, *words: str) -> tuple[int, bytes, str]:
    done = run_in_bytes(words, folder)
    return done.returncode, done.stdout, done.stderr.decode()


def test_no_program_that_a_repository_names_is_run(committed: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    evil.chmod(0o755)
    (committed / ".gitattributes").write_text("* filter=x diff=x\n")
    for key in ("filter.x.clean", "filter.x.smudge", "diff.x.textconv", "core.fsmonitor"):
        run_git(committed, "config", key, str(evil))
    assert said(committed, "blame", "src/app.py")[0] == 0
    assert not (tmp_path / "ran").exists()


def test_where_nothing_governs_git_tells_and_remit_init_is_named(repository: Path) -> None:
    (repository / "a.txt").write_text("one\n")
    commit(repository)
    code, out, complaint = said(repository, "blame", "a.txt")
    assert (code, out.endswith(b"1) one\n"), complaint.count("\n")) == (0, True, 1)
    assert "`remit init`" in complaint
    code, out, complaint = said(repository, "why", "a.txt:1")
    assert (code, b"unknown" in out, "`remit init`" in complaint) == (0, True, True)
    assert not (repository / ".git" / "remit").exists()


def test_a_line_break_in_a_name_splits_no_line(repository: Path) -> None:
    (repository / "new\nline").write_text("one\ntwo\n")
    commit(repository)
    code, out, _ = said(repository, "blame", "-f", "new\nline")
    assert (code, out.count(b" new?line ")) == (0, 2)


def test_a_name_that_is_not_utf8_is_blamed(committed: Path) -> None:
    name = b"caf\xe9.txt".decode("utf-8", "surrogateescape")
    (committed / name).write_text("one\n")
    commit(committed)
    assert [said(committed, "blame", *form, name)[0] for form in ((), ("--json",), ("--porcelain",))] == [0, 0, 0]
    code, _, complaint = said(committed, "why", f"{name}:1")
    assert (code, complaint) == (0, "")


@pytest.mark.parametrize(
    ("words", "revisions", "file"),
    [
        (["HEAD", "a"], ("HEAD",), "a"),
        (["a", "HEAD"], ("HEAD",), "a"),
        (["--", "a", "HEAD"], ("HEAD",), "a"),
        (["HEAD~1..HEAD", "--", "-odd"], ("HEAD~1..HEAD",), "-odd"),
        (["-L", "1,2", "--date", "iso", "a"], (), "a"),
    ],
)
def test_words_are_taken_as_git_takes_them(
    tmp_path: Path, words: list[str], revisions: tuple[str, ...], file: str
) -> None:
    (tmp_path / "a").touch()
    found = parse_arguments(words, tmp_path)
    assert (found.revisions, found.file) == (revisions, file)


@pytest.mark.parametrize(
    "words",
    [
        ("--output={}", "src/app.py"),
        ("--outpu", "{}", "src/app.py"),
        ("-wo{}", "src/app.py"),
        ("--", "src/app.py", "--output={}"),
        ("--ext-diff", "src/app.py"),
    ],
)
def test_no_word_makes_git_write_a_file(agent: Agent, words: tuple[str, ...]) -> None:
    victim = agent.cwd / "README.md"
    before = victim.read_bytes()
    remit(agent.cwd, "blame", *(word.format(victim) for word in words), code=2)
    assert victim.read_bytes() == before


@given(st.lists(st.text("-LMCSswpn=1,:/é", max_size=6), max_size=5))
def test_any_words_are_sorted_or_refused(words: list[str]) -> None:
    try:
        found = parse_arguments(words, Path("/nonexistent"))
    except BlameUsageError:
        return
    assert found.file in words
    assert not any(revision.startswith("-") for revision in found.revisions)
