"""The git commands whose writes their words tell: the files they name, and git's own bookkeeping.

What git keeps for itself (index, objects, references) is not a file of the user's. Left out: what runs the
repository's hooks (`commit`, `merge`, `push` …), what takes names from commits or patches (`pull`,
`checkout BRANCH`, `apply` …), and what gives a name to a commit that the words choose (`tag`, `branch NAME COMMIT`,
`reset COMMIT`): what that commit holds, no text tells.

Source: the manual pages of git 2.39 and 2.51, read 2026-11.
"""

import posixpath
import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, ParsedOptions, parse_options, word_set
from remit.policy.commands.parse.words import GLOB_CHARACTER, HOME_MARK, START_MARK, UnprovedCommand, Word
from remit.policy.commands.programs.effects import CommandEffects, Write, write_to
from remit.policy.commands.programs.git_reads import GLOBAL_OPTIONS, LOG_OPTIONS, check_reading_git
from remit.policy.commands.programs.writer_rows import add_valued_options, find_row_writes
from remit.policy.commands.programs.writers import WriterRow


def writer_row(flags: str = "", valued: str = "", long: str = "", long_valued: str = "") -> OptionRow:
    return OptionRow(flags, valued, "", long=word_set(long), long_valued=word_set(long_valued))


GIT_WRITERS: dict[str, WriterRow] = {
    "add": WriterRow(writer_row("AuvNn", "", "all update verbose intent-to-add dry-run"), "none"),
    "stage": WriterRow(writer_row("AuvNn", "", "all update verbose intent-to-add dry-run"), "none"),
    "mv": WriterRow(writer_row("fkvn", "", "force verbose dry-run"), "moved", follows_links=False, recursive_options=word_set("*")),  # noqa: E501
    "rm": WriterRow(writer_row("rfqn", "", "force quiet dry-run cached ignore-unmatch"), recursive_options=word_set("*"), follows_links=False,  # noqa: E501
                 no_write_options=word_set("--cached -n --dry-run")),
    "gc": WriterRow(writer_row("q", "", "quiet auto aggressive"), "none"),
    "archive": WriterRow(writer_row("v", "o", "verbose", "format prefix output"), "none", word_set("-o --output")),
    "format-patch": WriterRow(writer_row("nks0123456789", "o", "stdout numbered signoff", "output-directory"), "none",
                           folder_options=word_set("-o --output-directory"), no_write_options=word_set("--stdout")),
    "merge-file": WriterRow(writer_row("qp", "L", "quiet stdout ours theirs union diff3 zdiff3"), "first",
                         no_write_options=word_set("-p --stdout")),
    "log": WriterRow(LOG_OPTIONS),
    "show": WriterRow(LOG_OPTIONS),
    "diff": WriterRow(LOG_OPTIONS),
}  # fmt: skip


def write_git_command(name: str, words: Sequence[Word]) -> CommandEffects:
    """What `git …` writes; raises Refused."""
    taken = parse_options("git", GLOBAL_OPTIONS, words, stop_at_operand=True)
    folders = taken.values("-C")
    if len(folders) > 1 or not all(word.is_literal for word in folders):
        raise UnprovedCommand("`git -C` names no literal folder")
    if not taken.operands or not taken.operands[0].is_literal or taken.has_option("--help"):
        raise UnprovedCommand("the command of `git` is not literal")
    verb, rest = taken.operands[0].text, taken.operands[1:]
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
    """By the table. A path that git itself would take for a pattern is refused."""
    writer = GIT_WRITERS[verb]
    if verb in ("log", "show", "diff"):
        return write_git_output(verb, words)
    for word in words:
        check_pathspec(word)
    return find_row_writes(f"git {verb}", writer, words)


def write_git_output(verb: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`--output=FILE` beside what only reads."""
    at = next((i for i, word in enumerate(words) if word.text.partition("=")[0] == "--output"), None)
    if at is None:
        raise UnprovedCommand(f"`git {verb}` is not on the tables with these words")
    taken = parse_options(f"git {verb}", add_valued_options(LOG_OPTIONS, ("--output",)), words[at : at + 2])
    attached = "=" in words[at].text
    check_reading_git((Word(verb), *words[:at], *words[at + (1 if attached else 2) :]))
    return tuple(write_to(word, f"git {verb}") for word in taken.values("--output"))


def check_pathspec(word: Word) -> None:
    """Whether git takes the word for a path as it stands; raises Refused."""
    if word.is_literal and (word.text.startswith(":") or GLOB_CHARACTER.search(word.text)):
        raise UnprovedCommand(f"{word.text!r} is a pattern of git's own")


def restored_files(verb: str, parsed: ParsedOptions) -> tuple[Write, ...]:
    """The operands as files that get the content of a commit."""
    for word in parsed.operands:
        check_pathspec(word)
    return tuple(
        replace(write_to(word, f"git {verb}"), follows_links=False, is_recursive=True) for word in parsed.operands
    )


def write_branch(words: Sequence[Word]) -> tuple[Write, ...]:
    """A new branch from where HEAD stands, another name for one, or the end of one whose commits others hold."""
    taken = parse_options("git branch", writer_row("qvdm", "", "quiet verbose delete move no-track"), words)
    if len(taken.operands) > 1 and not taken.has_option("-d", "--delete", "-m", "--move"):
        raise UnprovedCommand("which commit `git branch` gives a name has to be looked at")
    return ()


def write_reset(words: Sequence[Word]) -> tuple[Write, ...]:
    """The index as the newest commit has it; any other commit moves the branch, or brings what it holds."""
    taken = parse_options("git reset", writer_row("q", "", "soft mixed quiet"), words)
    at = next((i for i, word in enumerate(words) if word.is_literal and word.text == "--"), len(words))
    before = parse_options("git reset", writer_row("q", "", "soft mixed quiet"), words[:at]).operands
    if before and not (before[0].is_literal and before[0].text == "HEAD"):
        raise UnprovedCommand("which commit `git reset` goes to has to be looked at")
    for word in taken.operands:
        check_pathspec(word)
    return ()


def write_restore(words: Sequence[Word]) -> tuple[Write, ...]:
    row = writer_row("qSW", "s", "quiet staged worktree ignore-unmerged", "source")
    taken = parse_options("git restore", row, words, globs_are_operands=True)
    if taken.has_option("-S", "--staged") and taken.has_option("-s", "--source"):
        raise UnprovedCommand("what `git restore` stages from a commit has to be looked at")
    index_only = taken.has_option("-S", "--staged") and not taken.has_option("-W", "--worktree")
    return () if index_only else restored_files("restore", taken)


def write_switch(words: Sequence[Word]) -> tuple[Write, ...]:
    """A new branch from where one stands."""
    taken = parse_options("git switch", writer_row("q", "c", "quiet", "create"), words)
    if taken.operands or not taken.has_option("-c", "--create"):
        raise UnprovedCommand("`git switch` takes what it changes from a commit")
    return ()


def write_checkout(words: Sequence[Word]) -> tuple[Write, ...]:
    """`checkout [COMMIT] -- PATH…`, or a new branch from where one stands."""
    mark = next((at for at, word in enumerate(words) if word.is_literal and word.text == "--"), None)
    if mark is not None:
        before = parse_options("git checkout", writer_row("q", "", "quiet"), words[:mark])
        if len(before.operands) > 1 or not all(word.is_single for word in before.operands):
            raise UnprovedCommand("`git checkout` of several commits")
        return restored_files("checkout", ParsedOptions((), tuple(words[mark + 1 :])))
    taken = parse_options("git checkout", writer_row("q", "b", "quiet"), words)
    if not taken.has_option("-b") or taken.operands:
        raise UnprovedCommand("`git checkout` takes what it changes from a commit")
    return ()


def write_clone(words: Sequence[Word]) -> tuple[Write, ...]:
    row = writer_row(
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
        gone = parse_options("git worktree remove", writer_row("f", "", "force"), words[1:]).operands
        return tuple(replace(write_to(word, "git"), follows_links=False, is_recursive=True) for word in gone)
    if not words or words[0].text != "add":
        raise UnprovedCommand("what `git worktree` changes is not in its words")
    operands = parse_options("git worktree add", writer_row("fq", "b", "detach quiet"), words[1:]).operands
    if not operands:
        raise UnprovedCommand("`git worktree add` without a folder")
    return (new_work_tree(operands[0]),)


def write_init(words: Sequence[Word]) -> tuple[Write, ...]:
    taken = parse_options("git init", writer_row("q", "b", "quiet bare", "initial-branch"), words)
    if len(taken.operands) > 1:
        raise UnprovedCommand("`git init` of several folders")
    return (new_work_tree(taken.operands[0] if taken.operands else Word(".")),)


def new_work_tree(word: Word) -> Write:
    return replace(write_to(word, "git"), adds_names=True, may_be_link=True, is_work_tree=True)


def write_bundle(words: Sequence[Word]) -> tuple[Write, ...]:
    if len(words) < 3 or words[0].text != "create" or words[1].may_be_option:
        raise UnprovedCommand("what `git bundle` changes is not in its words")
    return (write_to(words[1], "git bundle"),)


def write_config(words: Sequence[Word]) -> tuple[Write, ...]:
    """A setting: in the repository's file, the user's, or the machine's."""
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
    """Return the verb, and the remote that it names, of a command whose changes only its end tells.

    Raises Refused where the words may have git run a program, or fetch from a place that no settings name.
    """
    if verb not in UNDETERMINED_COMMANDS:
        raise UnprovedCommand(f"what `git {verb}` changes is not in its words")
    taken = parse_options(f"git {verb}", UNDETERMINED_COMMANDS[verb], words)
    if verb not in FETCHING_VERBS:
        return verb
    for word in taken.operands:
        if not word.is_literal or ":" in word.text or word.text.startswith((".", "/", "~", "+", HOME_MARK, START_MARK)):
            raise UnprovedCommand(f"where `git {verb}` fetches from, or to, is not in the settings")
    return " ".join((verb, *(word.text for word in taken.operands[:1])))


_FETCH_OPTIONS = (
    "quiet verbose all append atomic force keep prune prune-tags no-tags tags unshallow update-shallow progress "
    "no-progress ipv4 ipv6 no-recurse-submodules no-auto-gc no-auto-maintenance dry-run"
)
_MERGE_OPTIONS = (
    "no-edit ff no-ff ff-only stat no-stat squash no-squash commit no-commit autostash no-autostash no-rebase"
)
UNDETERMINED_COMMANDS: dict[str, OptionRow] = {
    "fetch": writer_row("qvaftpkn46j", "", _FETCH_OPTIONS, "depth jobs deepen"),
    "pull": writer_row("qvfpknr46", "", f"{_FETCH_OPTIONS} {_MERGE_OPTIONS} rebase", "depth jobs"),
    "merge": writer_row("qvn", "mX", f"quiet verbose {_MERGE_OPTIONS} abort continue", "message strategy-option"),
    "rebase": writer_row("qvnfi", "X", "quiet verbose autostash no-autostash abort continue skip root keep-empty update-refs "  # noqa: E501
                   "no-update-refs fork-point no-fork-point", "onto strategy-option"),
    "checkout": writer_row("qft", "bB", "quiet force detach track no-track ours theirs", "orphan"),
    "switch": writer_row("qfdt", "cC", "quiet force detach track no-track discard-changes guess no-guess", "create orphan"),  # noqa: E501
    "stash": writer_row("qumk", "m", "quiet include-untracked keep-index index staged all", "message"),
    "reset": writer_row("qN", "", "quiet soft mixed hard keep merge"),
    "restore": writer_row("qSW", "s", "quiet staged worktree ignore-unmerged", "source"),
    "commit": writer_row("aqvS", "mFC", "all amend no-edit quiet verbose allow-empty allow-empty-message signoff gpg-sign "  # noqa: E501
                   "no-gpg-sign reset-author no-status reuse-message", "message file author date fixup squash trailer"),
    "cherry-pick": writer_row("xns", "mX", "no-commit signoff abort continue skip quit no-edit ff allow-empty", "mainline"),  # noqa: E501
    "revert": writer_row("ns", "mX", "no-commit signoff abort continue skip quit no-edit", "mainline"),
    "push": writer_row("quvn46", "", "quiet set-upstream tags follow-tags all atomic verbose porcelain progress dry-run "  # noqa: E501
                 "no-verify"),
    "tag": writer_row("adlsf", "m", "annotate delete sign force list", "message"),
    "branch": writer_row("qvdDmMutf", "u", "quiet verbose delete move track no-track force unset-upstream",
                   "set-upstream-to"),
    "rm": writer_row("rfqn", "", "force quiet dry-run cached ignore-unmatch"),
}  # fmt: skip
"""git's own commands of which only the end tells what they changed. None runs a program that its words name."""

FETCHING_VERBS = frozenset({"fetch", "pull"})
