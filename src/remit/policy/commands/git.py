"""The git commands that only read.

git runs programs that its settings name (external diffs, text converters, clean filters, file system
monitors, the pager on a terminal). The settings of the repository and of the user are not an agent's to
write; those given on the command line are refused, and so is every other repository (see `analyse`).

Source: the manual pages of git 2.39 and 2.51, read 2026-11.
"""

from collections.abc import Sequence

from remit.policy.commands.options import Row, Taken, names, take
from remit.policy.commands.words import Refused, Word

GLOBAL = Row("P", "C", long=frozenset({"no-pager", "no-optional-locks", "literal-pathspecs", "no-replace-objects"}))

LOG_LONG = names(
    "oneline stat shortstat numstat name-only name-status summary patch no-patch patch-with-stat graph "
    "decorate no-decorate all branches tags remotes merges no-merges first-parent reverse follow cached "
    "staged color no-color word-diff color-words abbrev-commit no-abbrev-commit abbrev date relative-date "
    "pretty format since after until before author committer grep max-count skip no-ext-diff no-textconv "
    "text binary full-index raw minimal patience histogram diff-filter diff-algorithm find-renames "
    "find-copies find-copies-harder no-renames unified ignore-all-space ignore-space-change "
    "ignore-blank-lines ignore-space-at-eol quiet exit-code check left-right left-only right-only "
    "cherry-pick cherry-mark cherry merge-base date-order topo-order author-date-order walk-reflogs source "
    "full-history simplify-merges ancestry-path children parents boundary count not glob exclude no-walk "
    "submodule ignore-submodules function-context inter-hunk-context src-prefix dst-prefix no-prefix "
    "relative pickaxe-all pickaxe-regex dirstat compact-summary notes no-notes mailmap use-mailmap cc "
    "regexp-ignore-case extended-regexp fixed-strings invert-grep all-match color-moved no-color-moved "
    "max-parents min-parents root no-index no-commit-id no-mailmap objects"
)
LOG_VALUED = names(
    "since after until before author committer grep max-count skip diff-filter diff-algorithm "
    "src-prefix dst-prefix inter-hunk-context"
)

LOG = Row("pusmctrzigEFPqwbaRW", "nSGL", "UMCBD", long=LOG_LONG, long_valued=LOG_VALUED, digits=True)
ANY = Row(any_option=True, digits=True)


def _row(flags: str = "", valued: str = "", long: str = "", attached: str = "", valued_long: str = "") -> Row:
    return Row(flags, valued, attached, long=names(long), long_valued=names(valued_long), digits=True)


SELECTING = "--contains --no-contains --merged --no-merged --points-at"

SUBCOMMANDS: dict[str, Row] = {
    "log": LOG,
    "show": LOG,
    "diff": LOG,
    "whatchanged": LOG,
    "diff-tree": LOG,
    "diff-index": LOG,
    "diff-files": LOG,
    "range-diff": LOG,
    "rev-list": LOG,
    "cherry": _row("v"),
    "status": _row(
        "sbvz", long="short branch verbose porcelain long show-stash untracked-files ignored ignore-submodules "
        "column no-column renames no-renames ahead-behind no-ahead-behind find-renames", attached="uM"),
    "blame": _row("lbtfnsewpc", "L", "line-porcelain porcelain root show-stats date show-name show-number "
                  "show-email abbrev color-lines first-parent", "MC"),
    "annotate": _row("lbtfnsewpc", "L", "", "MC"),
    "shortlog": _row("snec", "", "summary numbered email committer group since until no-merges all author",
                     "w"),
    "describe": _row("", "", "all tags contains abbrev candidates exact-match debug long match exclude always "
                     "first-parent dirty broken"),
    "branch": _row("arvi", "", "all remotes list verbose show-current contains no-contains merged no-merged "
                   "points-at abbrev no-abbrev color no-color column no-column ignore-case", "", "sort format"),
    "tag": _row("li", "", "list contains no-contains merged no-merged points-at color column no-column "
                "ignore-case", "n", "sort format"),
    "grep": _row("nilcwveEFPGhHqazoLpWIr", "efmABC", "name-only files-with-matches files-without-match count "
                 "ignore-case line-number column word-regexp extended-regexp fixed-strings perl-regexp "
                 "basic-regexp show-function heading break color no-color cached untracked untracked "
                 "no-index exclude-standard recurse-submodules max-depth threads and or not all-match quiet "
                 "only-matching invert-match text function-context full-name max-count"),
    "remote": _row("v", "", "verbose push all"),
    "reflog": LOG,
    "stash": LOG,
    "config": _row("lz", "", "get get-all get-regexp list global local system worktree show-origin show-scope "
                   "name-only null type bool int path default includes no-includes all"),
    "worktree": _row("vz", "", "porcelain verbose"),
    "notes": _row("", "", "ref"),
    "submodule": _row("q", "", "cached recursive quiet"),
    "bisect": _row(),
    "symbolic-ref": Row("q", long=frozenset({"short", "quiet"}), operands=1),
    "cat-file": _row("tpse", "", "batch batch-check batch-all-objects buffer follow-symlinks unordered"),
    "ls-files": ANY,
    "ls-tree": ANY,
    "rev-parse": ANY,
    "merge-base": ANY,
    "name-rev": ANY,
    "for-each-ref": _row("", "", "merged no-merged contains no-contains shell perl python tcl ignore-case", "",
                         "count sort format points-at exclude"),
    "show-ref": ANY,
    "show-branch": _row("ar", "", "all remotes list sha1-name no-name current topo-order date-order color"),
    "check-ignore": ANY,
    "check-attr": ANY,
    "check-mailmap": ANY,
    "check-ref-format": ANY,
    "count-objects": ANY,
    "var": ANY,
    "version": ANY,
}  # fmt: skip

VERBS: dict[str, frozenset[str]] = {
    "reflog": frozenset({"", "show", "exists"}),
    "stash": frozenset({"list", "show"}),
    "worktree": frozenset({"list"}),
    "notes": frozenset({"", "list", "show"}),
    "submodule": frozenset({"status", "summary"}),
    "bisect": frozenset({"log"}),
    "remote": frozenset({"", "get-url"}),
}
"""Subcommands whose first operand says what is done; empty: there may be none."""


def other_repository(words: Sequence[Word]) -> str | None:
    """Check the words after `git`; the folder that `-C` names, if any. Raises Refused."""
    taken = take("git", GLOBAL, words, stop=True)
    folders = taken.values("-C")
    if len(folders) > 1 or not all(word.literal for word in folders):
        raise Refused("`git -C` names no literal folder")
    if taken.has("--help"):
        raise Refused("`git --help` may open a viewer")
    if taken.operands:
        _subcommand(taken.operands)
    if not taken.operands and not taken.has("--version"):
        raise Refused("`git` without a subcommand is not on the read-only table")
    return folders[0].text.rstrip("/") if folders and folders[0].text != "." else None


def _subcommand(words: Sequence[Word]) -> None:
    name = words[0].text
    row = SUBCOMMANDS.get(name)
    if row is None or not words[0].literal:
        raise Refused(f"`git {name}` is not on the read-only table")
    if any("%G" in word.text or "signature" in word.text for word in words[1:]):
        raise Refused(f"`git {name}` may run gpg for a signature")
    if any(word.text in ("--help", "-h") for word in words[1:]):
        raise Refused(f"`git {name} --help` may open a viewer")
    taken = take(f"git {name}", row, words[1:])
    if not all(word.literal for word in taken.values("--format", "--pretty")):
        raise Refused(f"the format of `git {name}` is not literal")
    if name in VERBS and taken.operands and words[1] != taken.operands[0]:
        raise Refused(f"`git {name}` with an option before its verb is not on the read-only table")
    _verb(name, taken)


def _verb(name: str, taken: Taken) -> None:
    """Subcommands that read or write, depending on their operands."""
    first = taken.operands[0] if taken.operands else Word("")
    if name in VERBS and (not first.literal or first.text not in VERBS[name]):
        raise Refused(f"`git {name} {first.text}` is not on the read-only table")
    if name == "branch" and taken.operands and not taken.has("--list", *SELECTING.split()):
        raise Refused("`git branch` with a name may create or move a branch")
    if name == "tag" and taken.operands and not taken.has("-l", "--list", *SELECTING.split()):
        raise Refused("`git tag` with a name may create a tag")
    if name == "config":
        _config(taken)


def _config(taken: Taken) -> None:
    if taken.has("--get", "--get-all", "--get-regexp", "--list", "-l"):
        return
    words = taken.operands
    if all(word.literal for word in words):
        match [word.text for word in words]:
            case ["list"] | ["get", _]:
                return
            case [key] if "." in key:
                return
            case _:
                pass
    raise Refused("`git config` may set a value")
