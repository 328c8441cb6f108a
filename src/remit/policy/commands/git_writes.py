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

from remit.policy.commands.effects import Run, Write, written
from remit.policy.commands.git import GLOBAL, LOG, other_repository
from remit.policy.commands.options import Row, Taken, names, take
from remit.policy.commands.patterns import GLOB
from remit.policy.commands.words import HOME, START, Refused, Word
from remit.policy.commands.writers import Writer
from remit.policy.commands.writing import with_values, writes_of


def _row(flags: str = "", valued: str = "", long: str = "", long_valued: str = "") -> Row:
    return Row(flags, valued, "", long=names(long), long_valued=names(long_valued))


GIT_WRITERS: dict[str, Writer] = {
    "add": Writer(_row("AuvNn", "", "all update verbose intent-to-add dry-run"), "none"),
    "stage": Writer(_row("AuvNn", "", "all update verbose intent-to-add dry-run"), "none"),
    "mv": Writer(_row("fkvn", "", "force verbose dry-run"), "moved", follows=False, deep=names("*")),
    "rm": Writer(_row("rfqn", "", "force quiet dry-run cached ignore-unmatch"), deep=names("*"), follows=False,
                 idle=names("--cached -n --dry-run")),
    "gc": Writer(_row("q", "", "quiet auto aggressive"), "none"),
    "archive": Writer(_row("v", "o", "verbose", "format prefix output"), "none", names("-o --output")),
    "format-patch": Writer(_row("nks0123456789", "o", "stdout numbered signoff", "output-directory"), "none",
                           folders=names("-o --output-directory"), idle=names("--stdout")),
    "merge-file": Writer(_row("qp", "L", "quiet stdout ours theirs union diff3 zdiff3"), "first",
                         idle=names("-p --stdout")),
    "log": Writer(LOG),
    "show": Writer(LOG),
    "diff": Writer(LOG),
}  # fmt: skip


def changed_by_git(name: str, words: Sequence[Word]) -> Run:
    """What `git …` writes; raises Refused."""
    taken = take("git", GLOBAL, words, stop=True)
    folders = taken.values("-C")
    if len(folders) > 1 or not all(word.literal for word in folders):
        raise Refused("`git -C` names no literal folder")
    if not taken.operands or not taken.operands[0].literal or taken.has("--help"):
        raise Refused("the command of `git` is not literal")
    verb, rest = taken.operands[0].text, taken.operands[1:]
    if any(word.text in ("--help", "-h") for word in rest):
        raise Refused(f"`git {verb} --help` may open a viewer")
    folder = folders[0].text.rstrip("/") if folders and folders[0].text != "." else None
    find = SPECIAL.get(verb)
    try:
        if find is None and verb not in GIT_WRITERS:
            raise Refused(f"what `git {verb}` changes is not in its words")
        writes = find(rest) if find else by_row(verb, rest)
    except Refused as refused:
        return Run((name,), folder=folder, acts=True, git=untold(verb, rest), untold=str(refused))
    if folder:
        writes = tuple(replace(write, path=posixpath.join(folder, write.path)) for write in writes)
    return Run((name,), folder=folder, acts=True, writes=writes, git=verb)


def by_row(verb: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """By the table. A path that git itself would take for a pattern is refused."""
    writer = GIT_WRITERS[verb]
    if verb in ("log", "show", "diff"):
        return _output(verb, words)
    for word in words:
        check_path(word)
    return writes_of(f"git {verb}", writer, words)


def _output(verb: str, words: Sequence[Word]) -> tuple[Write, ...]:
    """`--output=FILE` beside what only reads."""
    at = next((i for i, word in enumerate(words) if word.text.partition("=")[0] == "--output"), None)
    if at is None:
        raise Refused(f"`git {verb}` is not on the tables with these words")
    taken = take(f"git {verb}", with_values(LOG, ("--output",)), words[at : at + 2])
    attached = "=" in words[at].text
    other_repository((Word(verb), *words[:at], *words[at + (1 if attached else 2) :]))
    return tuple(written(word, f"git {verb}") for word in taken.values("--output"))


def check_path(word: Word) -> None:
    """Whether git takes the word for a path as it stands; raises Refused."""
    if word.literal and (word.text.startswith(":") or GLOB.search(word.text)):
        raise Refused(f"{word.text!r} is a pattern of git's own")


def files_of(verb: str, taken: Taken) -> tuple[Write, ...]:
    """The operands as files that get the content of a commit."""
    for word in taken.operands:
        check_path(word)
    return tuple(replace(written(word, f"git {verb}"), follows=False, below=True) for word in taken.operands)


def _branch(words: Sequence[Word]) -> tuple[Write, ...]:
    """A new branch from where HEAD stands, another name for one, or the end of one whose commits others hold."""
    taken = take("git branch", _row("qvdm", "", "quiet verbose delete move no-track"), words)
    if len(taken.operands) > 1 and not taken.has("-d", "--delete", "-m", "--move"):
        raise Refused("which commit `git branch` gives a name has to be looked at")
    return ()


def _reset(words: Sequence[Word]) -> tuple[Write, ...]:
    """The index as the newest commit has it; any other commit moves the branch, or brings what it holds."""
    taken = take("git reset", _row("q", "", "soft mixed quiet"), words)
    at = next((i for i, word in enumerate(words) if word.literal and word.text == "--"), len(words))
    before = take("git reset", _row("q", "", "soft mixed quiet"), words[:at]).operands
    if before and not (before[0].literal and before[0].text == "HEAD"):
        raise Refused("which commit `git reset` goes to has to be looked at")
    for word in taken.operands:
        check_path(word)
    return ()


def _restore(words: Sequence[Word]) -> tuple[Write, ...]:
    row = _row("qSW", "s", "quiet staged worktree ignore-unmerged", "source")
    taken = take("git restore", row, words, globs=True)
    if taken.has("-S", "--staged") and taken.has("-s", "--source"):
        raise Refused("what `git restore` stages from a commit has to be looked at")
    index_only = taken.has("-S", "--staged") and not taken.has("-W", "--worktree")
    return () if index_only else files_of("restore", taken)


def _switch(words: Sequence[Word]) -> tuple[Write, ...]:
    """A new branch from where one stands."""
    taken = take("git switch", _row("q", "c", "quiet", "create"), words)
    if taken.operands or not taken.has("-c", "--create"):
        raise Refused("`git switch` takes what it changes from a commit")
    return ()


def _checkout(words: Sequence[Word]) -> tuple[Write, ...]:
    """`checkout [COMMIT] -- PATH…`, or a new branch from where one stands."""
    mark = next((at for at, word in enumerate(words) if word.literal and word.text == "--"), None)
    if mark is not None:
        before = take("git checkout", _row("q", "", "quiet"), words[:mark])
        if len(before.operands) > 1 or not all(word.single for word in before.operands):
            raise Refused("`git checkout` of several commits")
        return files_of("checkout", Taken((), tuple(words[mark + 1 :])))
    taken = take("git checkout", _row("q", "b", "quiet"), words)
    if not taken.has("-b") or taken.operands:
        raise Refused("`git checkout` takes what it changes from a commit")
    return ()


def _clone(words: Sequence[Word]) -> tuple[Write, ...]:
    row = _row("qvnls", "b", "quiet verbose no-checkout bare no-hardlinks single-branch no-tags mirror", "depth branch")
    operands = list(take("git clone", row, words).operands)
    if not operands or len(operands) > 2 or not operands[0].literal or "::" in operands[0].text:
        raise Refused("`git clone` of what the text does not show")
    if len(operands) == 2:
        return (_new_tree(operands[1]),)
    name = re.split(r"[/:]", operands[0].text.rstrip("/").removesuffix("/.git").removesuffix(".git"))[-1]
    return (_new_tree(Word(name)),)


def _worktree(words: Sequence[Word]) -> tuple[Write, ...]:
    if words and words[0].text == "remove":
        gone = take("git worktree remove", _row("f", "", "force"), words[1:]).operands
        return tuple(replace(written(word, "git"), follows=False, below=True) for word in gone)
    if not words or words[0].text != "add":
        raise Refused("what `git worktree` changes is not in its words")
    operands = take("git worktree add", _row("fq", "b", "detach quiet"), words[1:]).operands
    if not operands:
        raise Refused("`git worktree add` without a folder")
    return (_new_tree(operands[0]),)


def _init(words: Sequence[Word]) -> tuple[Write, ...]:
    taken = take("git init", _row("q", "b", "quiet bare", "initial-branch"), words)
    if len(taken.operands) > 1:
        raise Refused("`git init` of several folders")
    return (_new_tree(taken.operands[0] if taken.operands else Word(".")),)


def _new_tree(word: Word) -> Write:
    return replace(written(word, "git"), opens=True, links=True, tree=True)


def _bundle(words: Sequence[Word]) -> tuple[Write, ...]:
    if len(words) < 3 or words[0].text != "create" or words[1].may_be_option:
        raise Refused("what `git bundle` changes is not in its words")
    return (written(words[1], "git bundle"),)


def _config(words: Sequence[Word]) -> tuple[Write, ...]:
    """A setting: in the repository's file, the user's, or the machine's."""
    texts = [word.text for word in words]
    if not all(word.literal for word in words) or "-f" in texts or "--blob" in texts or "--worktree" in texts:
        raise Refused("which settings `git config` changes is not in its words")
    if any(text.startswith("--file") for text in texts):
        raise Refused("which settings `git config` changes is not in its words")
    place = "~/.gitconfig" if "--global" in texts else "/etc/gitconfig" if "--system" in texts else ".git/config"
    return (Write("\x01/.gitconfig" if place.startswith("~") else place, edits=True),)


def _remote(words: Sequence[Word]) -> tuple[Write, ...]:
    if not words or words[0].text not in ("add", "remove", "rm", "rename", "set-url", "set-head", "set-branches"):
        raise Refused("what `git remote` changes is not in its words")
    return (Write(".git/config", edits=True),)


SPECIAL: dict[str, Callable[[Sequence[Word]], tuple[Write, ...]]] = {
    "branch": _branch,
    "reset": _reset,
    "restore": _restore,
    "checkout": _checkout,
    "switch": _switch,
    "clone": _clone,
    "worktree": _worktree,
    "init": _init,
    "bundle": _bundle,
    "config": _config,
    "remote": _remote,
}


def untold(verb: str, words: Sequence[Word]) -> str:
    """Return the verb, and the remote that it names, of a command whose changes only its end tells.

    Raises Refused where the words may have git run a program, or fetch from a place that no settings name.
    """
    if verb not in UNTOLD:
        raise Refused(f"what `git {verb}` changes is not in its words")
    taken = take(f"git {verb}", UNTOLD[verb], words)
    if verb not in FETCHING:
        return verb
    for word in taken.operands:
        if not word.literal or ":" in word.text or word.text.startswith((".", "/", "~", "+", HOME, START)):
            raise Refused(f"where `git {verb}` fetches from, or to, is not in the settings")
    return " ".join((verb, *(word.text for word in taken.operands[:1])))


_FETCH = (
    "quiet verbose all append atomic force keep prune prune-tags no-tags tags unshallow update-shallow progress "
    "no-progress ipv4 ipv6 no-recurse-submodules no-auto-gc no-auto-maintenance dry-run"
)
_MERGE = "no-edit ff no-ff ff-only stat no-stat squash no-squash commit no-commit autostash no-autostash no-rebase"
UNTOLD: dict[str, Row] = {
    "fetch": _row("qvaftpkn46j", "", _FETCH, "depth jobs deepen"),
    "pull": _row("qvfpknr46", "", f"{_FETCH} {_MERGE} rebase", "depth jobs"),
    "merge": _row("qvn", "mX", f"quiet verbose {_MERGE} abort continue", "message strategy-option"),
    "rebase": _row("qvnfi", "X", "quiet verbose autostash no-autostash abort continue skip root keep-empty update-refs "
                   "no-update-refs fork-point no-fork-point", "onto strategy-option"),
    "checkout": _row("qft", "bB", "quiet force detach track no-track ours theirs", "orphan"),
    "switch": _row("qfdt", "cC", "quiet force detach track no-track discard-changes guess no-guess", "create orphan"),
    "stash": _row("qumk", "m", "quiet include-untracked keep-index index staged all", "message"),
    "reset": _row("qN", "", "quiet soft mixed hard keep merge"),
    "restore": _row("qSW", "s", "quiet staged worktree ignore-unmerged", "source"),
    "commit": _row("aqvS", "mFC", "all amend no-edit quiet verbose allow-empty allow-empty-message signoff gpg-sign "
                   "no-gpg-sign reset-author no-status reuse-message", "message file author date fixup squash trailer"),
    "cherry-pick": _row("xns", "mX", "no-commit signoff abort continue skip quit no-edit ff allow-empty", "mainline"),
    "revert": _row("ns", "mX", "no-commit signoff abort continue skip quit no-edit", "mainline"),
    "push": _row("quvn46", "", "quiet set-upstream tags follow-tags all atomic verbose porcelain progress dry-run "
                 "no-verify"),
    "tag": _row("adlsf", "m", "annotate delete sign force list", "message"),
    "branch": _row("qvdDmMutf", "u", "quiet verbose delete move track no-track force unset-upstream",
                   "set-upstream-to"),
    "rm": _row("rfqn", "", "force quiet dry-run cached ignore-unmatch"),
}  # fmt: skip
"""git's own commands of which only the end tells what they changed. None runs a program that its words name."""

FETCHING = frozenset({"fetch", "pull"})
