"""The git commands that only read.

git runs programs that its settings name (external diffs, text converters, clean filters, file system monitors, the
pager on a terminal). Agents may not write the settings of the repository and of the user; settings on the command line
are refused, and so is every other repository (see `analyse`).

Source: the manual pages of git 2.39 and 2.51, read 2026-11.
"""

from collections.abc import Sequence

from remit.policy.commands.parse.options import OptionRow, ParsedOptions, parse_options, word_set
from remit.policy.commands.parse.words import GLOB_CHARACTER, UnprovedCommand, Word
from remit.policy.commands.programs.effects import CommandEffects, Lines
from remit.policy.commands.programs.files import files_below

GLOBAL_OPTIONS = OptionRow("P", "C", "no-pager no-optional-locks literal-pathspecs no-replace-objects")

LOG_LONG = (
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
LOG_VALUED = (
    "since after until before author committer grep max-count skip diff-filter diff-algorithm "
    "src-prefix dst-prefix inter-hunk-context"
)

LOG_OPTIONS = OptionRow("pusmctrzigEFPqwbaRW", "nSGL", LOG_LONG, LOG_VALUED, "UMCBD", takes_number=True)


def git_row(flags: str = "", valued: str = "", long: str = "", attached: str = "", valued_long: str = "") -> OptionRow:
    return OptionRow(flags, valued, long, valued_long, attached, takes_number=True)


SELECTING_OPTIONS = "--contains --no-contains --merged --no-merged --points-at"

LOGS = word_set("log show diff whatchanged diff-tree diff-index diff-files range-diff rev-list reflog stash")
HARMLESS = word_set(
    "ls-files ls-tree rev-parse merge-base name-rev show-ref check-ignore check-attr check-mailmap check-ref-format "
    "count-objects var version"
)
"""Subcommands of which no option writes or runs anything."""

READING_SUBCOMMANDS: dict[str, OptionRow] = {
    **dict.fromkeys(LOGS, LOG_OPTIONS),
    **dict.fromkeys(HARMLESS, OptionRow(allows_any=True, takes_number=True)),
    "cherry": git_row("v"),
    "status": git_row(
        "sbvz", long="short branch verbose porcelain long show-stash untracked-files ignored ignore-submodules "
        "column no-column renames no-renames ahead-behind no-ahead-behind find-renames", attached="uM"),
    "blame": git_row("lbtfnsewpc", "L", "line-porcelain porcelain root show-stats date show-name show-number "
                  "show-email abbrev color-lines first-parent", "MC"),
    "annotate": git_row("lbtfnsewpc", "L", "", "MC"),
    "shortlog": git_row("snec", "", "summary numbered email committer group since until no-merges all author",
                     "w"),
    "describe": git_row("", "", "all tags contains abbrev candidates exact-match debug long match exclude always "
                     "first-parent dirty broken"),
    "branch": git_row("arvi", "", "all remotes list verbose show-current contains no-contains merged no-merged "
                   "points-at abbrev no-abbrev color no-color column no-column ignore-case", "", "sort format"),
    "tag": git_row("li", "", "list contains no-contains merged no-merged points-at color column no-column "
                "ignore-case", "n", "sort format"),
    "grep": git_row("nilcwveEFPGhHqazoLpWIr", "efmABC", "name-only files-with-matches files-without-match count "
                 "ignore-case line-number column word-regexp extended-regexp fixed-strings perl-regexp "
                 "basic-regexp show-function heading break color no-color cached untracked untracked "
                 "no-index exclude-standard recurse-submodules max-depth threads and or not all-match quiet "
                 "only-matching invert-match text function-context full-name max-count"),
    "remote": git_row("v", "", "verbose push all"),
    "config": git_row("lz", "", "get get-all get-regexp list global local system worktree show-origin show-scope "
                   "name-only null type bool int path default includes no-includes all"),
    "worktree": git_row("vz", "", "porcelain verbose"),
    "notes": git_row("", "", "ref"),
    "submodule": git_row("q", "", "cached recursive quiet"),
    "bisect": git_row(),
    "symbolic-ref": OptionRow("q", long="short quiet", operands=1),
    "cat-file": git_row("tpse", "", "batch batch-check batch-all-objects buffer follow-symlinks unordered"),
    "for-each-ref": git_row("", "", "merged no-merged contains no-contains shell perl python tcl ignore-case", "",
                         "count sort format points-at exclude"),
    "show-branch": git_row("ar", "", "all remotes list sha1-name no-name current topo-order date-order color"),
}  # fmt: skip

READING_VERBS: dict[str, frozenset[str]] = {
    "reflog": frozenset({"", "show", "exists"}),
    "stash": frozenset({"list", "show"}),
    "worktree": frozenset({"list"}),
    "notes": frozenset({"", "list", "show"}),
    "submodule": frozenset({"status", "summary"}),
    "bisect": frozenset({"log"}),
    "remote": frozenset({"", "get-url"}),
}
"""The first operands with which a subcommand only reads; empty if an operand may be missing."""


def check_reading_git(words: Sequence[Word]) -> str | None:
    """Return the folder of `-C`, if given, for a git command that only reads. Raises UnprovedCommand for others."""
    parsed = parse_options("git", GLOBAL_OPTIONS, words, stop_at_operand=True)
    folders = parsed.values("-C")
    if len(folders) > 1 or not all(word.is_literal for word in folders):
        raise UnprovedCommand("`git -C` names no literal folder")
    if parsed.has_option("--help"):
        raise UnprovedCommand("`git --help` may open a viewer")
    if parsed.operands:
        check_subcommand(parsed.operands)
    if not parsed.operands and not parsed.has_option("--version"):
        raise UnprovedCommand("`git` without a subcommand is not on the read-only table")
    return folders[0].text.rstrip("/") if folders and folders[0].text != "." else None


def check_subcommand(words: Sequence[Word]) -> None:
    name = words[0].text
    row = READING_SUBCOMMANDS.get(name)
    if row is None or not words[0].is_literal:
        raise UnprovedCommand(f"`git {name}` is not on the read-only table")
    if any("%G" in word.text or "signature" in word.text for word in words[1:]):
        raise UnprovedCommand(f"`git {name}` may run gpg for a signature")
    if any(word.text in ("--help", "-h") for word in words[1:]):
        raise UnprovedCommand(f"`git {name} --help` may open a viewer")
    parsed = parse_options(f"git {name}", row, words[1:])
    if not all(word.is_literal for word in parsed.values("--format", "--pretty")):
        raise UnprovedCommand(f"the format of `git {name}` is not literal")
    if name in READING_VERBS and parsed.operands and words[1] != parsed.operands[0]:
        raise UnprovedCommand(f"`git {name}` with an option before its verb is not on the read-only table")
    check_operands(name, parsed)


def check_operands(name: str, parsed: ParsedOptions) -> None:
    """Raise UnprovedCommand if the operands make a subcommand write."""
    first = parsed.operands[0] if parsed.operands else Word("")
    if name in READING_VERBS and (not first.is_literal or first.text not in READING_VERBS[name]):
        raise UnprovedCommand(f"`git {name} {first.text}` is not on the read-only table")
    if name == "branch" and parsed.operands and not parsed.has_option("--list", *SELECTING_OPTIONS.split()):
        raise UnprovedCommand("`git branch` with a name may create or move a branch")
    if name == "tag" and parsed.operands and not parsed.has_option("-l", "--list", *SELECTING_OPTIONS.split()):
        raise UnprovedCommand("`git tag` with a name may create a tag")
    if name == "config":
        check_config(parsed)


def check_config(parsed: ParsedOptions) -> None:
    if parsed.has_option("--get", "--get-all", "--get-regexp", "--list", "-l"):
        return
    words = parsed.operands
    if all(word.is_literal for word in words):
        match [word.text for word in words]:
            case ["list"] | ["get", _]:
                return
            case [key] if "." in key:
                return
            case _:
                pass
    raise UnprovedCommand("`git config` may set a value")


def read_git(name: str, words: Sequence[Word]) -> CommandEffects:
    return CommandEffects((name,), folder=check_reading_git(words))


def list_git(name: str, words: Sequence[Word]) -> Lines:
    """Return the files that `git ls-files` and `git grep -l` list, from the present folder."""
    if not words or not words[0].is_literal or any(word.text.startswith(":") for word in words):
        return None
    if words[0].text == "ls-files":
        parsed = parse_options(
            "git ls-files",
            OptionRow("mcdoz", long="modified cached deleted others exclude-standard"),
            words[1:],
        )
        patterns = any(word.is_literal and GLOB_CHARACTER.search(word.text) for word in parsed.operands)
        return files_below(() if patterns else parsed.operands)
    if words[0].text == "grep":
        parsed = parse_options("git grep", OptionRow("lniwEFe", long="name-only files-with-matches"), words[1:])
        return (
            files_below(parsed.operands[1:]) if parsed.has_option("-l", "--name-only", "--files-with-matches") else None
        )
    return None
