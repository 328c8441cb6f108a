"""The row of git, and the git commands with writes known from the words: named files, and git's own data.

git's own data (index, objects, references) are no files of the user. Left out are commands with hooks of the repository
(`commit`, `merge`, `push` …), with names from commits or patches (`pull`, `checkout BRANCH`, `apply` …), and with a
name for a chosen commit (`tag`, `branch NAME COMMIT`, `reset COMMIT`): no text shows the content of a commit.

Source: the manual pages of git 2.39 and 2.51, read 2026-11.
"""

import posixpath
import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, ParsedOptions, parse_options
from remit.policy.commands.parse.words import GLOB_CHARACTER, HOME_MARK, START_MARK, UnprovedCommand, Word
from remit.policy.commands.programs.effects import CommandEffects, Write, write_to
from remit.policy.commands.programs.git_reads import GLOBAL_OPTIONS, LOG_OPTIONS, check_reading_git, list_git, read_git
from remit.policy.commands.programs.row import (
    DISCARDS_WORK,
    EVADES_CONTROL,
    REWRITES_HISTORY,
    REWRITES_SHARED_BRANCH,
    DangerRule,
    Program,
    RunCommand,
    WriterRow,
    rows,
)
from remit.policy.commands.programs.row_writes import add_valued_options, find_row_writes

GIT_WRITERS: dict[str, WriterRow] = {
    "add": WriterRow(OptionRow("AuvNn", "", "all update verbose intent-to-add dry-run"), "none"),
    "stage": WriterRow(OptionRow("AuvNn", "", "all update verbose intent-to-add dry-run"), "none"),
    "mv": WriterRow(OptionRow("fkvn", "", "force verbose dry-run"), "moved", follows_links=False, recursive="*"),
    "rm": WriterRow(OptionRow("rfqn", "", "force quiet dry-run cached ignore-unmatch"), recursive="*",
        idle="--cached -n --dry-run", follows_links=False),
    "gc": WriterRow(OptionRow("q", "", "quiet auto aggressive"), "none"),
    "archive": WriterRow(OptionRow("v", "o", "verbose", "format prefix output"), "none", outputs="-o --output"),
    "format-patch": WriterRow(OptionRow("nks0123456789", "o", "stdout numbered signoff", "output-directory"), "none",
                           folders="-o --output-directory", idle="--stdout"),
    "merge-file": WriterRow(OptionRow("qp", "L", "quiet stdout ours theirs union diff3 zdiff3"), "first",
                         idle="-p --stdout"),
    "log": WriterRow(LOG_OPTIONS),
    "show": WriterRow(LOG_OPTIONS),
    "diff": WriterRow(LOG_OPTIONS),
}  # fmt: skip


def write_git(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """Return the effects of a git command that writes. Raises UnprovedCommand."""
    parsed = parse_options("git", GLOBAL_OPTIONS, words, stop_at_operand=True)
    folders = parsed.values("-C")
    if len(folders) > 1 or not all(word.is_literal for word in folders):
        raise UnprovedCommand("`git -C` names no literal folder")
    if not parsed.operands or not parsed.operands[0].is_literal or parsed.has_option("--help"):
        raise UnprovedCommand("the command of `git` is not literal")
    verb, rest = parsed.operands[0].text, parsed.operands[1:]
    if any(word.text in ("--help", "-h") for word in rest):
        raise UnprovedCommand(f"`git {verb} --help` may open a viewer")
    folder = folders[0].text.rstrip("/") if folders and folders[0].text != "." else None
    find = GIT_WRITE_FUNCTIONS.get(verb)
    try:
        if find is None and verb not in GIT_WRITERS:
            raise UnprovedCommand(f"what `git {verb}` changes is not in its words")
        writes = find(rest) if find else write_by_row(verb, rest)
    except UnprovedCommand as refused:
        return CommandEffects(
            (name,),
            folder=folder,
            changes_state=True,
            git_verb=describe_undetermined(verb, rest),
            undetermined=str(refused),
        )
    if folder:
        writes = tuple(replace(write, path=posixpath.join(folder, write.path)) for write in writes)
    return CommandEffects((name,), folder=folder, changes_state=True, writes=writes, git_verb=verb)


def write_by_row(verb: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """Return the writes by the table. Refuse a path that git itself would take for a pattern."""
    writer = GIT_WRITERS[verb]
    if verb in ("log", "show", "diff"):
        return write_git_output(verb, words)
    for word in words:
        check_pathspec(word)
    return find_row_writes(f"git {verb}", writer, words)


def write_git_output(verb: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """Return the file of `--output=FILE` in a command that otherwise only reads."""
    at = next((i for i, word in enumerate(words) if word.text.partition("=")[0] == "--output"), None)
    if at is None:
        raise UnprovedCommand(f"`git {verb}` is not on the tables with these words")
    parsed = parse_options(f"git {verb}", add_valued_options(LOG_OPTIONS, "--output"), words[at : at + 2])
    attached = "=" in words[at].text
    check_reading_git((Word(verb), *words[:at], *words[at + (1 if attached else 2) :]))
    return tuple(write_to(word, f"git {verb}") for word in parsed.values("--output"))


def check_pathspec(word: Word) -> None:
    if word.is_literal and (word.text.startswith(":") or GLOB_CHARACTER.search(word.text)):
        raise UnprovedCommand(f"{word.text!r} is a pattern of git's own")


def restored_files(verb: str, parsed: ParsedOptions) -> tuple[Write, ...]:
    """Return the operands as files that get the content of a commit."""
    for word in parsed.operands:
        check_pathspec(word)
    return tuple(
        replace(write_to(word, f"git {verb}"), follows_links=False, is_recursive=True) for word in parsed.operands
    )


def write_branch(words: Sequence[Word]) -> tuple[Write, ...]:
    """Allow a new branch at HEAD, a new name, and the deletion of a merged branch."""
    parsed = parse_options("git branch", OptionRow("qvdm", "", "quiet verbose delete move no-track"), words)
    if len(parsed.operands) > 1 and not parsed.has_option("-d", "--delete", "-m", "--move"):
        raise UnprovedCommand("which commit `git branch` gives a name has to be looked at")
    return ()


def write_reset(words: Sequence[Word]) -> tuple[Write, ...]:
    """Allow the reset of the index to HEAD; any other commit moves the branch, or changes files."""
    parsed = parse_options("git reset", OptionRow("q", "", "soft mixed quiet"), words)
    at = next((i for i, word in enumerate(words) if word.is_literal and word.text == "--"), len(words))
    before = parse_options("git reset", OptionRow("q", "", "soft mixed quiet"), words[:at]).operands
    if before and not (before[0].is_literal and before[0].text == "HEAD"):
        raise UnprovedCommand("which commit `git reset` goes to has to be looked at")
    for word in parsed.operands:
        check_pathspec(word)
    return ()


def write_restore(words: Sequence[Word]) -> tuple[Write, ...]:
    row = OptionRow("qSW", "s", "quiet staged worktree ignore-unmerged", "source")
    parsed = parse_options("git restore", row, words, globs_are_operands=True)
    if parsed.has_option("-S", "--staged") and parsed.has_option("-s", "--source"):
        raise UnprovedCommand("what `git restore` stages from a commit has to be looked at")
    index_only = parsed.has_option("-S", "--staged") and not parsed.has_option("-W", "--worktree")
    return () if index_only else restored_files("restore", parsed)


def write_switch(words: Sequence[Word]) -> tuple[Write, ...]:
    parsed = parse_options("git switch", OptionRow("q", "c", "quiet", "create"), words)
    if parsed.operands or not parsed.has_option("-c", "--create"):
        raise UnprovedCommand("`git switch` takes what it changes from a commit")
    return ()


def write_checkout(words: Sequence[Word]) -> tuple[Write, ...]:
    """Return the files of `checkout [COMMIT] -- PATH…`; allow a new branch at HEAD."""
    mark = next((at for at, word in enumerate(words) if word.is_literal and word.text == "--"), None)
    if mark is not None:
        before = parse_options("git checkout", OptionRow("q", "", "quiet"), words[:mark])
        if len(before.operands) > 1 or not all(word.is_single for word in before.operands):
            raise UnprovedCommand("`git checkout` of several commits")
        return restored_files("checkout", ParsedOptions((), tuple(words[mark + 1 :])))
    parsed = parse_options("git checkout", OptionRow("q", "b", "quiet"), words)
    if not parsed.has_option("-b") or parsed.operands:
        raise UnprovedCommand("`git checkout` takes what it changes from a commit")
    return ()


def write_clone(words: Sequence[Word]) -> tuple[Write, ...]:
    row = OptionRow(
        "qvnls", "b", "quiet verbose no-checkout bare no-hardlinks single-branch no-tags mirror", "depth branch"
    )
    operands = list(parse_options("git clone", row, words).operands)
    if not operands or len(operands) > 2 or not operands[0].is_literal or "::" in operands[0].text:
        raise UnprovedCommand("`git clone` of what the text does not show")
    if len(operands) == 2:
        return (new_work_tree(operands[1]),)
    name = re.split(r"[/:]", operands[0].text.rstrip("/").removesuffix("/.git").removesuffix(".git"))[-1]
    return (new_work_tree(Word(name)),)


def write_worktree(words: Sequence[Word]) -> tuple[Write, ...]:
    if words and words[0].text == "remove":
        gone = parse_options("git worktree remove", OptionRow("f", "", "force"), words[1:]).operands
        return tuple(replace(write_to(word, "git"), follows_links=False, is_recursive=True) for word in gone)
    if not words or words[0].text != "add":
        raise UnprovedCommand("what `git worktree` changes is not in its words")
    operands = parse_options("git worktree add", OptionRow("fq", "b", "detach quiet"), words[1:]).operands
    if not operands:
        raise UnprovedCommand("`git worktree add` without a folder")
    return (new_work_tree(operands[0]),)


def write_init(words: Sequence[Word]) -> tuple[Write, ...]:
    parsed = parse_options("git init", OptionRow("q", "b", "quiet bare", "initial-branch"), words)
    if len(parsed.operands) > 1:
        raise UnprovedCommand("`git init` of several folders")
    return (new_work_tree(parsed.operands[0] if parsed.operands else Word(".")),)


def new_work_tree(word: Word) -> Write:
    return replace(write_to(word, "git"), adds_names=True, may_be_link=True, is_work_tree=True)


def write_bundle(words: Sequence[Word]) -> tuple[Write, ...]:
    if len(words) < 3 or words[0].text != "create" or words[1].may_be_option:
        raise UnprovedCommand("what `git bundle` changes is not in its words")
    return (write_to(words[1], "git bundle"),)


def write_config(words: Sequence[Word]) -> tuple[Write, ...]:
    """Return the file of a setting: the repository's, the user's, or the machine's."""
    texts = [word.text for word in words]
    if not all(word.is_literal for word in words) or "-f" in texts or "--blob" in texts or "--worktree" in texts:
        raise UnprovedCommand("which settings `git config` changes is not in its words")
    if any(text.startswith("--file") for text in texts):
        raise UnprovedCommand("which settings `git config` changes is not in its words")
    place = "~/.gitconfig" if "--global" in texts else "/etc/gitconfig" if "--system" in texts else ".git/config"
    return (Write("\x01/.gitconfig" if place.startswith("~") else place, edits_in_place=True),)


def write_remote(words: Sequence[Word]) -> tuple[Write, ...]:
    if not words or words[0].text not in ("add", "remove", "rm", "rename", "set-url", "set-head", "set-branches"):
        raise UnprovedCommand("what `git remote` changes is not in its words")
    return (Write(".git/config", edits_in_place=True),)


GIT_WRITE_FUNCTIONS: dict[str, Callable[[Sequence[Word]], tuple[Write, ...]]] = {
    "branch": write_branch,
    "reset": write_reset,
    "restore": write_restore,
    "checkout": write_checkout,
    "switch": write_switch,
    "clone": write_clone,
    "worktree": write_worktree,
    "init": write_init,
    "bundle": write_bundle,
    "config": write_config,
    "remote": write_remote,
}


def describe_undetermined(verb: str, words: Sequence[Word]) -> str:
    """Return the verb, and the named remote, of a command with changes known only at the end.

    Raises UnprovedCommand if git may run a program, or fetch from a place outside the settings.
    """
    if verb not in UNDETERMINED_COMMANDS:
        raise UnprovedCommand(f"what `git {verb}` changes is not in its words")
    parsed = parse_options(f"git {verb}", UNDETERMINED_COMMANDS[verb], words)
    if verb not in FETCHING_VERBS:
        return verb
    for word in parsed.operands:
        if not word.is_literal or ":" in word.text or word.text.startswith((".", "/", "~", "+", HOME_MARK, START_MARK)):
            raise UnprovedCommand(f"where `git {verb}` fetches from, or to, is not in the settings")
    return " ".join((verb, *(word.text for word in parsed.operands[:1])))


_FETCH_OPTIONS = (
    "quiet verbose all append atomic force keep prune prune-tags no-tags tags unshallow update-shallow progress "
    "no-progress ipv4 ipv6 no-recurse-submodules no-auto-gc no-auto-maintenance dry-run"
)
_MERGE_OPTIONS = (
    "no-edit ff no-ff ff-only stat no-stat squash no-squash commit no-commit autostash no-autostash no-rebase"
)
UNDETERMINED_COMMANDS: dict[str, OptionRow] = {
    "fetch": OptionRow("qvaftpkn46j", "", _FETCH_OPTIONS, "depth jobs deepen"),
    "pull": OptionRow("qvfpknr46", "", f"{_FETCH_OPTIONS} {_MERGE_OPTIONS} rebase", "depth jobs"),
    "merge": OptionRow("qvn", "mX", f"quiet verbose {_MERGE_OPTIONS} abort continue", "message strategy-option"),
    "rebase": OptionRow("qvnfi", "X", "quiet verbose autostash no-autostash abort continue skip root keep-empty "
        "update-refs no-update-refs fork-point no-fork-point", "onto strategy-option"),
    "checkout": OptionRow("qft", "bB", "quiet force detach track no-track ours theirs", "orphan"),
    "switch": OptionRow("qfdt", "cC", "quiet force detach track no-track discard-changes guess no-guess",
        "create orphan"),
    "stash": OptionRow("qumk", "m", "quiet include-untracked keep-index index staged all", "message"),
    "reset": OptionRow("qN", "", "quiet soft mixed hard keep merge"),
    "restore": OptionRow("qSW", "s", "quiet staged worktree ignore-unmerged", "source"),
    "commit": OptionRow("aqvS", "mFC", "all amend no-edit quiet verbose allow-empty allow-empty-message signoff "
        "gpg-sign no-gpg-sign reset-author no-status reuse-message",
        "message file author date fixup squash trailer"),
    "cherry-pick": OptionRow("xns", "mX", "no-commit signoff abort continue skip quit no-edit ff allow-empty",
        "mainline"),
    "revert": OptionRow("ns", "mX", "no-commit signoff abort continue skip quit no-edit", "mainline"),
    "push": OptionRow("quvn46", "", "quiet set-upstream tags follow-tags all atomic verbose porcelain progress dry-run "
                 "no-verify"),
    "tag": OptionRow("adlsf", "m", "annotate delete sign force list", "message"),
    "branch": OptionRow("qvdDmMutf", "u", "quiet verbose delete move track no-track force unset-upstream",
                   "set-upstream-to"),
    "rm": OptionRow("rfqn", "", "force quiet dry-run cached ignore-unmatch"),
}  # fmt: skip
"""git commands whose changes only their end shows. None runs a program that its words name."""

FETCHING_VERBS = frozenset({"fetch", "pull"})


# Dangerous uses

EVERYTHING_HERE = r"\.|\./|\*|:/|\./\*|\.\.(?:/.*)?"
GIT_DANGERS = (
    # work in the working tree
    DangerRule("reset", DISCARDS_WORK, "--hard --merge --keep", is_irreversible=False),
    DangerRule("clean", "deletes what no snapshot holds", "-x -X", unless="-n --dry-run"),
    DangerRule("clean", DISCARDS_WORK, "-f --force", unless="-n --dry-run", is_irreversible=False),
    DangerRule("checkout", DISCARDS_WORK, "-f --force", is_irreversible=False),
    DangerRule("checkout", DISCARDS_WORK, words=EVERYTHING_HERE, is_irreversible=False),
    DangerRule("restore", DISCARDS_WORK, words=EVERYTHING_HERE, unless="-S --staged", is_irreversible=False),
    DangerRule("restore", DISCARDS_WORK, "-W --worktree", words=EVERYTHING_HERE, is_irreversible=False),
    DangerRule("switch", DISCARDS_WORK, "-f --force --discard-changes -C --force-create", is_irreversible=False),
    DangerRule("checkout", REWRITES_HISTORY, "-B", is_irreversible=False),
    DangerRule("checkout-index|read-tree", DISCARDS_WORK, "-f --force --reset -u", is_irreversible=False),
    DangerRule("stash drop|clear", DISCARDS_WORK),
    DangerRule("submodule deinit", DISCARDS_WORK, "-f --force"),
    DangerRule("worktree remove", DISCARDS_WORK, "-f --force"),
    DangerRule("rm", DISCARDS_WORK, "-r", words=EVERYTHING_HERE, is_irreversible=False),
    # history
    DangerRule("branch", REWRITES_HISTORY, "-D -M -f --force", is_irreversible=False),
    DangerRule("tag", REWRITES_HISTORY, "-f --force", is_irreversible=False),
    DangerRule("reflog expire|delete", REWRITES_HISTORY),
    DangerRule("filter-branch|filter-repo|replace", REWRITES_HISTORY),
    DangerRule("update-ref", REWRITES_HISTORY, "-d --stdin"),
    DangerRule("gc", REWRITES_HISTORY, "--prune"),
    DangerRule("prune|prune-packed", REWRITES_HISTORY, unless="-n --dry-run"),
    # branches of others
    DangerRule(
        "push",
        REWRITES_SHARED_BRANCH,
        "-f --force --force-with-lease --force-if-includes --mirror --delete -d --prune",
        unless="-n --dry-run",
    ),
    DangerRule("push", REWRITES_SHARED_BRANCH, words=r"\+.+|:[^/].*", unless="-n --dry-run"),
    # hooks and settings that govern agents
    DangerRule("commit|merge|push|am|rebase|cherry-pick|revert", EVADES_CONTROL, "--no-verify", is_irreversible=False),
    DangerRule("commit", EVADES_CONTROL, "-n", is_irreversible=False),
    DangerRule(
        "config",
        EVADES_CONTROL,
        words=r"(?i)(?:core\.(?:hookspath|fsmonitor|sshcommand|editor|pager|worktree|attributesfile)|alias\..*|"
        r"filter\..*|diff\..*|merge\..*\.driver|credential\..*|include.*\.path|url\..*|protocol\..*|gpg\..*)",
        unless="--get --get-all --get-regexp --list -l get list",
        is_irreversible=False,
    ),
)

PROGRAMS = rows({"git": Program(reads=read_git, effects=write_git, lists=list_git, danger=GIT_DANGERS)})
