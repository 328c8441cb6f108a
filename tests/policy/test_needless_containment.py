"""Words that steer nothing leave a command proved; words beside them that run or set something do not."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, allowed, governed, overlay_untried
from remit.policy.commands import analyse

READS = (
    "git -C src status",
    "cd src && git status",
    "git -c core.pager=cat log",
    "git -c color.ui=always diff",
    "GIT_PAGER=cat git log",
    "PAGER=cat git log",
    "GIT_EDITOR=true git log",
    "awk '$1 > 5' f",
    "awk '$1 > 5 {print $2}' f",
    "awk '{ if ($1 > 5) print $2 }' f",
    "(( 3 > 2 )) && echo y",
    "(( 3 > 2 ))",
    "echo ${X:=1}",
    ": ${X:=1}",
    "export FOO=bar; echo $FOO",
    "export FOO=bar",
    "FOO=bar ls",
    "cd src && cd lib && git log -1",
    "cd src && cd .. && git log",
    "awk '{ if (($1 > 5) && ($2 > \"a(\")) print $2 }' f",
    'awk \'{print ("a" > "f")}\' f',
    "export GIT_PAGER=cat; git log",
    "((3>2))",
    "{ ls; }",
)

OTHERS = (
    "git -c core.pager='!x' log",
    "GIT_PAGER='sh evil' git log",
    "awk '{print > \"f\"}'",
    "awk 'BEGIN{system(\"x\")}'",
    "((x=1))",
    ": ${PATH:=x}",
    "export PATH=x; ls",
    "GIT_TERMINAL_PROMPT=0 git fetch",
    "cd .. && git log",
    "git -C ../x log",
    "git -C ~/x log",
    "git -C /x log",
    "cd $X && git log",
    "git -c core.fsmonitor=x status",
    "git -c log.showSignature=true log",
    'awk \'{print "(" > "f" ")"}\' f',
    "awk '/\\(/ {print > \"f\"} /\\)/' f",
    "awk '{ print $1 | \"sort\" }' f",
    "awk '{ print ($1 | \"sort\") }' f",
    "GIT_EDITOR=evil git log",
    "export GIT_PAGER='sh evil'; git log",
    "export FOO=$(cat x); echo $FOO",
    "x=; echo ${x:=a}; rm $x",
    "((a[$(x)]))",
    "FOO='sh x' ls",
)


@pytest.mark.parametrize("command", READS)
def test_what_steers_nothing_leaves_a_command_proved(command: str) -> None:
    assert analyse(command).outcome == "read_only"


@pytest.mark.parametrize("command", OTHERS)
def test_what_may_run_or_set_something_is_not_proved(command: str) -> None:
    assert analyse(command).outcome == "unknown"


def test_a_folder_below_is_named_for_the_caller_to_look_at() -> None:
    assert analyse("git -C evil status").git_folders == ("evil",)
    assert analyse("cd a && cd b && git log && git -C c diff").git_folders == ("a", "a/b", "a/b/c")
    assert analyse("cd a; ls").git_folders == ()


def test_git_in_a_folder_below_runs_bare_if_it_is_of_this_repository(repository: Path, home: Path) -> None:
    overlay_untried(home)
    agent = Agent(governed(repository), home)
    agent.select()
    for name in ("nested", "bare", "plain"):
        (repository / "src" / name).mkdir()
    run_git(repository / "src" / "nested", "init", "-q")
    run_git(repository / "src" / "bare", "init", "-q", "--bare")
    (repository / "src" / "away").symlink_to("/")

    def runs_bare(command: str) -> bool:
        answer = agent.ask("Bash", command=command)
        return allowed(answer) and "updatedInput" not in answer

    for command in ("git -C {} status", "cd {} && git log -1", "cd src && cd ../{} && git status"):
        assert runs_bare(command.format("src/plain")), command
        for other in ("src/nested", "src/bare", "src/away", "src/absent"):
            assert not runs_bare(command.format(other)), (command, other)
