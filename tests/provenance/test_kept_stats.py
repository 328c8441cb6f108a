"""Statistics from kept answers are the statistics of an index that was built just now."""

from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_agreement import Project, blame_all
from provenance.test_blame import commit
from provenance.test_stats import figures
from remit.gate.gate import Gate
from remit.ledger.index.index import Index, open_index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.committed_files import CommittedFiles
from remit.provenance.origins.blame_porcelain import GitLine
from remit.provenance.stats.figures import Figures, measure_figures

LONG_AFTER = 4_000_000_000.0  # all lines are old by then

STEPS = 36
ROUNDS = 4


def figures_anew(root: Path, folder: Path, now: float) -> Figures:
    """Measure with an index that was built just now."""
    gate = Gate.open(root)
    folder.mkdir()
    with Index.open(folder / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        return measure_figures(Blamer(gate.workspace, index, gate.contents), (), {}, now)


def rewrite_history(project: Project) -> None:
    """Do one of the things that people do to commits."""
    chance, root = project.chance, project.root
    branch = f"side-{chance.randrange(10**9)}"
    with suppress(CalledProcessError):
        match chance.choice(["amend", "merge", "squash", "rebase", "back"]):
            case "amend":
                run_git(root, "commit", "-q", "--amend", "-m", "amended")
            case "squash":
                run_git(root, "reset", "-q", "--soft", "HEAD~2")
                run_git(root, "commit", "-qm", "squashed")
            case "back":
                run_git(root, "reset", "-q", "--hard", "HEAD~1")
            case kind:
                main = run_git(root, "rev-parse", "--abbrev-ref", "HEAD").strip()
                run_git(root, "checkout", "-qb", branch, "HEAD~2")
                project.step()
                project.commit()
                run_git(root, *(["rebase", "-q", main] if kind == "rebase" else ["merge", "-q", main, "-m", "merged"]))
                run_git(root, "branch", "-f", main, branch)
                run_git(root, "checkout", "-q", main)
    for words in (["rebase", "--abort"], ["merge", "--abort"]):
        with suppress(CalledProcessError):
            run_git(root, *words)


@pytest.mark.parametrize("seed", [1, 4, 7])
def test_kept_statistics_are_those_without_any(repository: Path, home: Path, tmp_path: Path, seed: int) -> None:
    project = Project(repository, home, seed)
    for number in range(ROUNDS):
        for _ in range(STEPS // ROUNDS):
            project.step()
        project.commit()
        if number:
            rewrite_history(project)
        anew = figures_anew(repository, tmp_path / f"anew-{number}", LONG_AFTER)
        assert figures(repository, now=LONG_AFTER) == anew


def read_by_git(root: Path, *paths: str) -> tuple[dict[str, list[GitLine] | None], list[str]]:
    """Return the lines of files at HEAD, and the files for which git ran."""
    asked: list[str] = []

    class Watched(CommittedFiles):
        def run_git_blame(self, path: str) -> list[GitLine] | None:
            asked.append(path)
            return super().run_git_blame(path)

    gate = Gate.open(root)
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        files = Watched(gate.workspace, index, gate.contents)
        return dict(files.read_lines(paths, files.find_last_commits(paths))), sorted(asked)


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    agent = Agent(governed(repository), home)
    agent.select()
    for name in ("one", "two"):
        agent.write(f"src/{name}.py", f"first_of_{name} = 1\nsecond_of_{name} = 2\n")
    commit(repository)
    return agent


def test_git_blames_a_file_again_only_after_a_commit_that_changed_it(agent: Agent) -> None:
    root, paths = agent.cwd, ("src/one.py", "src/two.py")
    first, asked = read_by_git(root, *paths)
    assert asked == [*paths]
    assert read_by_git(root, *paths) == (first, [])
    (root / "src/two.py").write_text("second_of_two = 2\nthird_of_two = 3\n")
    commit(root)
    second, asked = read_by_git(root, *paths)
    assert asked == ["src/two.py"]
    assert second["src/one.py"] == first["src/one.py"]
    assert [line.content for line in second["src/two.py"] or ()] == [b"second_of_two = 2", b"third_of_two = 3"]
    run_git(root, "reset", "-q", "--hard", "HEAD~1")
    assert read_by_git(root, *paths) == (first, [])


@pytest.mark.parametrize("words", [("config", "blame.ignoreRevsFile", "ignored"), ("replace", "HEAD~1", "HEAD")])
def test_gits_blame_is_not_kept_where_other_sources_decide(agent: Agent, words: tuple[str, ...]) -> None:
    (agent.cwd / "ignored").write_text("")
    commit(agent.cwd)
    assert read_by_git(agent.cwd, "src/one.py")[1] == ["src/one.py"]
    run_git(agent.cwd, *words)
    for _ in range(2):
        assert read_by_git(agent.cwd, "src/one.py")[1] == ["src/one.py"]


def test_a_setting_of_git_that_moves_lines_makes_it_blame_again(agent: Agent) -> None:
    read_by_git(agent.cwd, "src/one.py")
    run_git(agent.cwd, "config", "diff.algorithm", "histogram")
    assert read_by_git(agent.cwd, "src/one.py")[1] == ["src/one.py"]
    assert read_by_git(agent.cwd, "src/one.py")[1] == []


def test_a_line_that_git_takes_for_another_costs_no_other_file_its_line(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    file, old = repository / "src/laid.py", "if is_ready:\n  call_the_thing(with_value)\n"
    file.write_text(old)
    commit(repository)
    agent.read("src/laid.py")
    agent.write("src/laid.py", f"{old}    call_the_thing(with_value)\n")
    agent.write("src/other.py", "first_of_other = 1\nsecond_of_other = 2\nthird_of_other = 3\n")
    commit(repository)
    file.write_text("if is_ready:\n    call_the_thing(with_value)\n        call_the_thing(with_value)\n")
    commit(repository)
    shares = {found.path: found.ai for found in figures(repository).files}
    blamed = {path: sum(line.origin == "ai" for line in own) for path, own in blame_all(repository).items()}
    assert shares == {path: count for path, count in blamed.items() if count}
