"""The row of git, the commands that only read, and the commands with writes known from the words: named files and own
data.

git runs programs named in settings (external diffs, text converters, clean filters, file system monitors, the pager on
a terminal). Agents may not write the settings of the repository and of the user; settings on the command line are
refused, and every repository not listed (see `analyse`).

git's own data (index, references, HEAD, settings) are state for the next command: a path removed from the index is
missing in the next commit. Hence the row omits every command changing the data; such commands are judged by the result,
like commands with hooks of the repository (`commit`, `push` …), and with names from commits or patches (`pull`, `apply`
…). `rm`, `mv` and `checkout -- PATH` stay: beside the named files they change only the same index entries.

Source: the manual pages of git 2.39 and 2.51, read 2026-11.
"""

import posixpath
import re
from collections.abc import Sequence

from msgspec.structs import replace

from remit.policy.commands.programs.files import files_below
from remit.policy.commands.programs.row import (
    DISCARDS_WORK,
    EVADES_CONTROL,
    REWRITES_HISTORY,
    REWRITES_SHARED_BRANCH,
    CommandEffects,
    DangerRule,
    Lines,
    Program,
    RunCommand,
    Write,
    WriterRow,
    Writes,
    add_valued_options,
    find_row_writes,
    rows,
    write_all,
)
from remit.policy.commands.words import (
    GLOB_CHARACTER,
    HOME_MARK,
    START_MARK,
    OptionRow,
    ParsedOptions,
    UnprovedCommand,
    Word,
    parse_options,
    word_set,
)

GLOBAL_OPTIONS = OptionRow("P", "Cc", "no-pager no-optional-locks literal-pathspecs no-replace-objects")

HARMLESS_SETTING = re.compile(
    r"(?i)core\.pager=(?:cat)?|pager\.[a-z-]+=(?:false|no|off|cat)|color\.[a-z.]+=\w+|column\.\w+=[\w,]+"
    r"|core\.(?:quotepath|abbrev|precomposeunicode)=\w+|advice\.\w+=\w+|i18n\.logoutputencoding=[\w-]+"
    r"|log\.(?:date|decorate|abbrevcommit|follow|mailmap)=[\w-]+|log\.showsignature=false"
    r"|diff\.(?:renames|noprefix|mnemonicprefix|context|interhunkcontext|algorithm|colormoved|statgraphwidth)=[\w-]+"
    r"|status\.(?:short|branch|showuntrackedfiles|relativepaths|showstash|renames|aheadbehind)=\w+"
)
"""Settings on the command line by which git runs nothing, and reads the same."""

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


def split_git(words: Sequence[Word]) -> tuple[ParsedOptions, str | None]:
    parsed = parse_options("git", GLOBAL_OPTIONS, words, stop_at_operand=True)
    folders = parsed.values("-C")
    if len(folders) > 1 or not all(word.is_literal for word in folders):
        raise UnprovedCommand("`git -C` names no literal folder")
    if not all(word.is_literal and HARMLESS_SETTING.fullmatch(word.text) for word in parsed.values("-c")):
        raise UnprovedCommand("a setting of `git -c` may run a program")
    return parsed, folders[0].text.rstrip("/") if folders and folders[0].text != "." else None


def read_git(name: str, words: Sequence[Word]) -> CommandEffects:
    parsed, folder = split_git(words)
    if parsed.has_option("--help"):
        raise UnprovedCommand("`git --help` may open a viewer")
    if parsed.operands:
        check_reading(parsed.operands)
    elif not parsed.has_option("--version"):
        raise UnprovedCommand("`git` without a subcommand is not on the read-only table")
    return CommandEffects((name,), folder=folder)


def check_reading(words: Sequence[Word]) -> None:
    """Raise UnprovedCommand unless a command, given from its verb on, only reads."""
    name = words[0].text
    row = READING_SUBCOMMANDS.get(name)
    if row is None or not words[0].is_literal:
        raise UnprovedCommand(f"`git {name}` is not on the read-only table")
    if any("%G" in word.text or "signature" in word.text for word in words[1:]):
        raise UnprovedCommand(f"`git {name}` may run gpg for a signature")
    if any(word.text in ("--help", "-h") for word in words[1:]):
        raise UnprovedCommand(f"`git {name} --help` may open a viewer")
    parsed = parse_options(f"git {name}", row, words[1:])
    operands = parsed.operands
    if not all(word.is_literal for word in parsed.values("--format", "--pretty")):
        raise UnprovedCommand(f"the format of `git {name}` is not literal")
    if name in READING_VERBS:
        first = operands[0] if operands else Word("")
        if operands and words[1] != first:
            raise UnprovedCommand(f"`git {name}` with an option before its verb is not on the read-only table")
        if not first.is_literal or first.text not in READING_VERBS[name]:
            raise UnprovedCommand(f"`git {name} {first.text}` is not on the read-only table")
    selects = parsed.has_option("--list", *SELECTING_OPTIONS.split())
    if name == "branch" and operands and not selects:
        raise UnprovedCommand("`git branch` with a name may create or move a branch")
    if name == "tag" and operands and not selects and not parsed.has_option("-l"):
        raise UnprovedCommand("`git tag` with a name may create a tag")
    if name == "config" and not (all(w.is_literal for w in words) and reads_settings([w.text for w in words[1:]])):
        raise UnprovedCommand("`git config` may set a value")


READING_SETTINGS = ("--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color", "--list", "-l")
READING_OPTIONS = (
    *READING_SETTINGS,
    *("--global", "--local", "--system", "--worktree", "--show-origin", "--show-scope", "--name-only", "--null", "-z"),
    *("--type", "--bool", "--int", "--bool-or-int", "--path", "--includes", "--no-includes", "--default", "--all"),
)


def reads_settings(words: Sequence[str]) -> bool:
    """Return whether `git config` with these words only reads. The options end at the first plain word: words after a
    key are values. Source: git-config(1), and git 2.39 run, read 2026-11.
    """
    if [*words[:1]] in (["get"], ["list"]):
        return True
    rest = list(words)
    options: list[str] = []
    while rest and rest[0].startswith("-"):
        options.append(rest.pop(0))
        if options[-1] in ("--type", "--default"):
            rest = rest[1:]
    if any(option.partition("=")[0] not in READING_OPTIONS for option in options):
        return False
    return any(option in READING_SETTINGS for option in options) or (len(rest) == 1 and "." in rest[0])


def list_git(name: str, words: Sequence[Word]) -> Lines:
    if not words or not words[0].is_literal or any(word.text.startswith(":") for word in words):
        return None
    if words[0].text == "ls-files":
        row = OptionRow("mcdoz", long="modified cached deleted others exclude-standard")
        operands = parse_options("git ls-files", row, words[1:]).operands
        patterns = any(word.is_literal and GLOB_CHARACTER.search(word.text) for word in operands)
        return files_below(() if patterns else operands)
    if words[0].text == "grep":
        parsed = parse_options("git grep", OptionRow("lniwEFe", long="name-only files-with-matches"), words[1:])
        if parsed.has_option("-l", "--name-only", "--files-with-matches"):
            return files_below(parsed.operands[1:])
    return None


GIT_WRITERS: dict[str, WriterRow] = {
    "mv": WriterRow(OptionRow("fkvn", "", "force verbose dry-run"), "moved", follows_links=False, recursive="*"),
    "rm": WriterRow(OptionRow("rfqn", "", "force quiet dry-run ignore-unmatch"), recursive="*",
        idle="-n --dry-run", follows_links=False),
    "gc": WriterRow(OptionRow("q", "", "quiet auto aggressive"), "none"),
    "archive": WriterRow(OptionRow("v", "o", "verbose", "format prefix output"), "none", outputs="-o --output"),
    "format-patch": WriterRow(OptionRow("nks0123456789", "o", "stdout numbered signoff", "output-directory"), "none",
                           folders="-o --output-directory", idle="--stdout"),
    "merge-file": WriterRow(OptionRow("qp", "L", "quiet stdout ours theirs union diff3 zdiff3"), "first",
                         idle="-p --stdout"),
}  # fmt: skip


def write_git(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """Return the effects of a git command that writes. Raises UnprovedCommand."""
    parsed, folder = split_git(words)
    if not parsed.operands or not parsed.operands[0].is_literal or parsed.has_option("--help"):
        raise UnprovedCommand("the command of `git` is not literal")
    verb, rest = parsed.operands[0].text, parsed.operands[1:]
    if any(word.text in ("--help", "-h") for word in rest):
        raise UnprovedCommand(f"`git {verb} --help` may open a viewer")
    try:
        if verb in ("log", "show", "diff"):
            writes = write_git_output(verb, rest)
        elif verb in GIT_WRITERS:
            writes = find_row_writes(f"git {verb}", GIT_WRITERS[verb], check_pathspecs(rest))
        else:
            writes = write_own_data(verb, rest)
    except UnprovedCommand as refused:
        undetermined = describe_undetermined(verb, rest)
        effects = CommandEffects((name,), folder=folder, changes_state=True, git_verb=undetermined)
        return replace(effects, undetermined=str(refused))
    if folder:
        writes = tuple(replace(write, path=posixpath.join(folder, write.path)) for write in writes)
    return CommandEffects((name,), folder=folder, changes_state=True, writes=writes, git_verb=verb)


def write_git_output(verb: str, words: Sequence[Word]) -> Writes:
    at = next((i for i, word in enumerate(words) if word.text.partition("=")[0] == "--output"), None)
    if at is None:
        raise UnprovedCommand(f"`git {verb}` is not on the tables with these words")
    parsed = parse_options(f"git {verb}", add_valued_options(LOG_OPTIONS, "--output"), words[at : at + 2])
    check_reading((Word(verb), *words[:at], *words[at + (1 if "=" in words[at].text else 2) :]))
    return write_all(f"git {verb}", parsed.values("--output"))


def check_pathspecs(words: Sequence[Word]) -> Sequence[Word]:
    for word in words:
        if word.is_literal and (word.text.startswith(":") or GLOB_CHARACTER.search(word.text)):
            raise UnprovedCommand(f"{word.text!r} is a pattern of git's own")
    return words


def restored_files(verb: str, words: Sequence[Word]) -> Writes:
    return write_all(f"git {verb}", check_pathspecs(words), follows_links=False, is_recursive=True)


def write_checkout(words: Sequence[Word]) -> Writes:
    mark = next((at for at, word in enumerate(words) if word.is_literal and word.text == "--"), None)
    if mark is None:
        raise UnprovedCommand("`git checkout` takes what it changes from a commit")
    before = parse_options("git checkout", OptionRow("q", "", "quiet"), words[:mark]).operands
    if len(before) > 1 or not all(word.is_single for word in before):
        raise UnprovedCommand("`git checkout` of several commits")
    return restored_files("checkout", words[mark + 1 :])


def write_own_data(verb: str, words: Sequence[Word]) -> Writes:
    command, first = f"git {verb}", words[0].text if words else ""
    match verb:
        case "restore":
            row = OptionRow("qW", "s", "quiet worktree ignore-unmerged", "source")
            return restored_files(verb, parse_options(command, row, words, takes_globs=True).operands)
        case "checkout":
            return write_checkout(words)
        case "clone":
            long = "quiet verbose no-checkout bare no-hardlinks single-branch no-tags mirror"
            sources = list(parse_options(command, OptionRow("qvnls", "b", long, "depth branch"), words).operands)
            if not sources or len(sources) > 2 or not sources[0].is_literal or "::" in sources[0].text:
                raise UnprovedCommand("`git clone` of what the text does not show")
            name = re.split(r"[/:]", sources[0].text.rstrip("/").removesuffix("/.git").removesuffix(".git"))[-1]
            return new_work_tree(sources[1] if len(sources) == 2 else Word(name))
        case "init":
            operands = parse_options(command, OptionRow("q", "b", "quiet bare", "initial-branch"), words).operands
            if len(operands) > 1:
                raise UnprovedCommand("`git init` of several folders")
            return new_work_tree(operands[0] if operands else Word("."))
        case "worktree" if first == "remove":
            parsed = parse_options("git worktree remove", OptionRow("f", "", "force"), words[1:])
            # Unforced, git removes only a tree of which commits hold everything.
            is_whole = not parsed.has_option("-f", "--force")
            return write_all("git", parsed.operands, follows_links=False, is_recursive=True, is_work_tree=is_whole)
        case "worktree" if first == "add":
            operands = parse_options("git worktree add", OptionRow("fq", "b", "detach quiet"), words[1:]).operands
            if not operands:
                raise UnprovedCommand("`git worktree add` without a folder")
            return new_work_tree(operands[0])
        case "bundle" if first == "create" and len(words) > 2 and not words[1].may_be_option:
            return write_all(command, words[1:2])
        case "config":  # of the repository, the user, or the machine
            texts = [word.text for word in words]
            elsewhere = any(text in ("-f", "--blob", "--worktree") or text.startswith("--file") for text in texts)
            if elsewhere or not all(word.is_literal for word in words):
                raise UnprovedCommand("which settings `git config` changes is not in its words")
            user = f"{HOME_MARK}/.gitconfig" if "--global" in texts else None
            return (Write(user or ("/etc/gitconfig" if "--system" in texts else ".git/config"), edits_in_place=True),)
        case "remote" if first in ("add", "remove", "rm", "rename", "set-url", "set-head", "set-branches"):
            return (Write(".git/config", edits_in_place=True),)
        case _:
            raise UnprovedCommand(f"what `git {verb}` changes is not in its words")


def new_work_tree(word: Word) -> Writes:
    return write_all("git", (word,), adds_names=True, may_be_link=True, is_work_tree=True)


def describe_undetermined(verb: str, words: Sequence[Word]) -> str:
    """Return the verb, and the named remote, of a command with changes known only at the end.

    Raises UnprovedCommand if git may run a program, or fetch from a place outside the settings.
    """
    if verb not in UNDETERMINED_COMMANDS:
        raise UnprovedCommand(f"what `git {verb}` changes is not in its words")
    parsed = parse_options(f"git {verb}", UNDETERMINED_COMMANDS[verb], words)
    if verb == "submodule":
        if not parsed.operands or parsed.operands[0].text != "update":
            raise UnprovedCommand("what `git submodule` changes is not in its words")
        return f"{SUBMODULE_UPDATE} --remote" if parsed.has_option("--remote") else SUBMODULE_UPDATE
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
    "add": OptionRow("AufvNn", "", "all no-all update force verbose intent-to-add dry-run sparse", "chmod"),
    "stage": OptionRow("AufvNn", "", "all no-all update force verbose intent-to-add dry-run sparse", "chmod"),
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
    "submodule": OptionRow("qf", "j", "quiet init recursive force checkout merge rebase remote no-fetch progress "
        "single-branch",
        "depth jobs"),
}  # fmt: skip
"""git commands whose changes only their end shows. None runs a program that its words name."""

FETCHING_VERBS = frozenset({"fetch", "pull"})
SUBMODULE_UPDATE = "submodule update"
"""It fetches by the settings of the submodules, and by `.gitmodules`."""


EVERYTHING_HERE = r"\.|\./|\*|:/|\./\*|\.\.(?:/.*)?"
FORCING_OPTIONS = "-f --force --force-with-lease --force-if-includes --mirror --delete -d --prune"
GOVERNING_SETTINGS = (
    r"(?i)(?:core\.(?:hookspath|fsmonitor|sshcommand|editor|pager|worktree|attributesfile|sparsecheckout(?:cone)?)|alias\..*|"
    r"filter\..*|diff\..*|merge\..*\.driver|credential\..*|include.*\.path|url\..*|protocol\..*|gpg\..*)"
)
GIT_DANGERS = (
    # work in the working tree
    DangerRule("reset", DISCARDS_WORK, "--hard --merge --keep", is_irreversible=False),
    DangerRule("clean", "deletes what no snapshot holds", "-x -X", unless="-n --dry-run"),
    DangerRule("clean", DISCARDS_WORK, "-f --force", unless="-n --dry-run", is_irreversible=False),
    DangerRule("checkout", DISCARDS_WORK, "-f --force", is_irreversible=False),
    DangerRule("checkout", DISCARDS_WORK, words=EVERYTHING_HERE, is_irreversible=False),
    DangerRule("restore", DISCARDS_WORK, words=EVERYTHING_HERE, unless="-S --staged", is_irreversible=False),
    DangerRule("restore", DISCARDS_WORK, "-W --worktree", words=EVERYTHING_HERE, is_irreversible=False),
    DangerRule("switch", DISCARDS_WORK, "-f --force --discard-changes", is_irreversible=False),
    DangerRule("switch", REWRITES_HISTORY, "-C --force-create", is_irreversible=False),
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
    DangerRule("push", REWRITES_SHARED_BRANCH, FORCING_OPTIONS, unless="-n --dry-run"),
    DangerRule("push", REWRITES_SHARED_BRANCH, words=r"\+.+|:[^/].*", unless="-n --dry-run"),
    # hooks and settings that govern agents
    DangerRule("commit|merge|push|am|rebase|cherry-pick|revert", EVADES_CONTROL, "--no-verify", is_irreversible=False),
    DangerRule("commit", EVADES_CONTROL, "-n", is_irreversible=False),
    DangerRule("sparse-checkout add|disable|init|reapply|set", EVADES_CONTROL, is_irreversible=False),
    DangerRule("checkout|restore", EVADES_CONTROL, "--ignore-skip-worktree-bits", is_irreversible=False),
    DangerRule("update-index", EVADES_CONTROL, "--no-skip-worktree", is_irreversible=False),
    DangerRule("config", EVADES_CONTROL, words=GOVERNING_SETTINGS, except_for=reads_settings, is_irreversible=False),
)

PROGRAMS = rows({"git": Program(reads=read_git, effects=write_git, lists=list_git, danger=GIT_DANGERS)})
