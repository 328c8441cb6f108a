"""Commits made again by each edit tool, with and without a model's usual faults; and whose the lines are then."""

from pathlib import Path

import pytest

from agent.replayed_commits import FAULTS, WAYS, ChangedText, ReplayedCommit, Replayer, make_calls, read_commits
from agent.tool_driving import ToolDriver
from conftest import run_git
from remit.core.diff.contents import find_edit_script, split_lines
from remit.ledger.index.index import open_index
from remit.provenance.blame.blame import Blamer
from remit_agent.session.offer import TOOLS

CODE = "".join(f"def f{n}(a):\n    if a:\n        return {n}\n    return None\n\n\n" for n in range(12))
VERSIONS: list[dict[str, str | None]] = [
    {
        "src/code.py": CODE,
        "crlf.txt": "a\r\nb\r\nc\r\n",
        "mark.txt": "\ufeffone\ntwo\n",
        "open.txt": "a\nb",
        "gone.txt": "x\n",
    },
    {"src/code.py": CODE.replace("return 3", "return 33").replace("def f9(a)", "def f9(a, b)")},
    {"crlf.txt": "a\r\nB\r\nc\r\n", "mark.txt": "\ufeffone\n2\n", "open.txt": "a\nc"},
    {"src/code.py": CODE.replace("        return 5\n", "        a += 1\n        return 5\n"), "gone.txt": None},
    {"new/über.md": "# Title\n=======\n\n<<<<<<< SEARCH\n", "open.txt": "a\nc\n"},
    {
        "new/über.md": "# Name\n=======\n\n<<<<<<< SEARCH\n>>>>>>> REPLACE\n",
        "src/code.py": CODE + CODE.replace("f1", "g1"),
    },
    {"src/code.py": "", "crlf.txt": "a\r\n"},
    {"src/code.py": "x = 1\n"},
]


@pytest.fixture
def commits(repository: Path) -> list[ReplayedCommit]:
    for number, version in enumerate(VERSIONS):
        for name, text in version.items():
            path = repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True) if text is None else path.write_bytes(text.encode())
        run_git(repository, "add", "-A")
        run_git(repository, "commit", "-q", "-m", f"version {number}")
    return list(read_commits(repository / ".git", 20))


@pytest.fixture
def replayer(tmp_path: Path) -> Replayer:
    root = tmp_path / "replayed"
    root.mkdir()
    run_git(root, "init", "-q")
    return Replayer(root)


@pytest.mark.parametrize("way", WAYS)
def test_each_commit_comes_out_byte_for_byte(commits: list[ReplayedCommit], replayer: Replayer, way: str) -> None:
    assert len(commits) == len(VERSIONS)
    for commit in commits:
        replayer.replay(commit, way)
    assert replayer.problems == []
    assert replayer.counts[f"{way}: equal"] == len(VERSIONS)


FINE = {
    "lost indentation": ("right",),
    "CRLF": ("right",),
    "numbers left in": ("refused with the lines",),
    "one wrong line": ("refused with the lines",),
    "duplicate context": ("refused with the lines", "right"),
    "stale in the hunk": ("refused with the lines", "refused, to be read again"),
    "stale elsewhere": ("right",),
}


@pytest.mark.parametrize("way", ["edit", "apply_diff", "V4A patch"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_applied_right_or_refused_with_the_way_out(replayer: Replayer, fault: str, way: str) -> None:
    for changed in (CODE.replace("        return 5\n", "        a += 1\n        return 5\n"), CODE.replace("f7", "g7")):
        replayer.try_fault(fault, way, ChangedText("src/code.py", CODE, changed))
    outcomes = {name.partition(": ")[2] for name in replayer.counts}
    assert outcomes <= set(FINE[fault]), replayer.problems


CHANGES = {
    "two places": (CODE, CODE.replace("return 3", "return 33").replace("def f9(a)", "def f9(a, b)")),
    "an added line": (CODE, CODE.replace("        return 5\n", "        a += 1\n        return 5\n")),
    "CRLF": ("a\r\nb\r\nc", "a\r\nB\r\nc"),
}


@pytest.mark.parametrize("case", CHANGES)
@pytest.mark.parametrize("way", ["edit", "apply_diff", "V4A patch"])
def test_the_lines_that_a_commit_adds_are_the_agents(repository: Path, home: Path, way: str, case: str) -> None:
    file = ChangedText("src/code.py", *CHANGES[case])
    before, after = (text.encode() for text in CHANGES[case])
    (repository / file.path).write_bytes(before)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "before")
    driver = ToolDriver(repository, home)
    for tool, arguments in make_calls(way, file):
        driver.run(TOOLS[tool], **arguments)
    assert (repository / file.path).read_bytes() == after
    script = find_edit_script(split_lines(before), split_lines(after)) or []
    added = {n + 1 for _, _, start, end in script for n in range(start, end)}
    with open_index(driver.gate.workspace.state, driver.gate.workspace.log_folder) as index:
        lines = Blamer(driver.gate.workspace, index, driver.gate.contents).blame(file.path)
    assert {line.line for line in lines if line.origin == "ai"} == added
