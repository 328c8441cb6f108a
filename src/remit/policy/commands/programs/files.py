"""Programs to list, find, make, copy, move, change and delete files and folders.

`mkfifo` and `mknod` are left out on purpose: a program opening a pipe waits for the opposite end. Source: the manuals
of GNU coreutils 9.1, findutils 4.9, rsync 3.2, acl 2.3, attr 2.5, e2fsprogs 1.47, read 2026-11.
"""

import posixpath
import re
from collections.abc import Sequence

from msgspec.structs import replace

from remit.core.agents import ROWS
from remit.policy.commands.programs.row import (
    ANY_NUMBER,
    CHANGES_USERS,
    EVADES_CONTROL,
    WORKS_ON_DISKS,
    CommandEffects,
    DangerRule,
    Lines,
    Program,
    RunCommand,
    StdinRule,
    WriterRow,
    Writes,
    find_row_writes,
    rows,
    write_all,
)
from remit.policy.commands.programs.shell import substitute_word
from remit.policy.commands.words import (
    OptionRow,
    ParsedOptions,
    UnprovedCommand,
    Word,
    harmless_row,
    parse_options,
    word_set,
)

# find

FIND_TESTS = word_set(
    "-a -and -o -or -not -true -false -print -print0 -printf -ls -prune -quit -depth -d -daystart -xdev -mount "
    "-noleaf -follow -empty -nouser -nogroup -readable -writable -executable -amin -anewer -atime -cmin -cnewer "
    "-ctime -mmin -mtime -newer -newermt -newerct -newerat -fstype -gid -group -uid -user -ilname -iname -inum "
    "-ipath -iregex -iwholename -links -lname -maxdepth -mindepth -name -path -perm -regex -regextype -samefile "
    "-size -type -used -wholename -xtype -H -L -P -E -X -s -ignore_readdir_race -warn -nowarn -O1 -O2 -O3"
)
"""Words of find that start with `-` and only test or print."""

EXACT_TESTS = word_set("-name -type -print -print0 -delete -exec -maxdepth -mindepth")
"""Tests that leave the pattern of the found files exact."""

LEADING_OPTIONS = word_set("-H -L -P")  # Options of find that stand before the folders

LISTING_ACTIONS = word_set("-exec -execdir -printf -ls -delete -fprint")


def read_find(name: str, words: Sequence[Word]) -> CommandEffects:
    check_find_tests(words, "read-only table")
    return CommandEffects((name,))


def check_find_tests(words: Sequence[Word], table: str = "tables") -> None:
    """Raise UnprovedCommand unless the words only test or print. `find` takes no abbreviations."""
    for word in words:
        if word.may_split or (not word.is_literal and word.text[:1] in ("", "-", "(", "!")):
            raise UnprovedCommand("a word of `find` may become any option")
        number = re.fullmatch(r"-\d+[a-zA-Z]?", word.text, re.ASCII)
        if word.text.startswith("-") and word.text not in FIND_TESTS and number is None:
            raise UnprovedCommand(f"{word.text!r} of `find` is not on the {table}")


def write_find(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    given = [word for word in words if word.text not in LEADING_OPTIONS]
    starts, tests = split_starts(given)
    effects: list[CommandEffects] = []
    left: list[Word] = []
    while tests:
        word = tests.pop(0)
        if word.text == "-exec" and word.is_literal:
            command: list[Word] = []
            while tests and tests[0].text != ";" and (tests[0].text != "+" or not command or command[-1].text != "{}"):
                command.append(tests.pop(0))
            if not tests or not command or "{}" in command[0].text:
                raise UnprovedCommand("`find -exec` without an end, or without a literal command")
            tests.pop(0)
            found = found_files(starts, words)
            effects += (run_command([substitute_word(word, item) for word in command]) for item in found)
        elif word.text in ("-fprint", "-fls", "-fprint0", "-fprintf") and word.is_literal:
            if not tests:
                raise UnprovedCommand(f"`find {word.text}` lacks its file")
            effects.append(CommandEffects((), changes_state=True, writes=write_all(name, (tests.pop(0),))))
        elif word.text == "-delete":
            deleted = write_all(name, found_files(starts, words), follows_links=False)
            effects.append(CommandEffects((), changes_state=True, writes=deleted))
        else:
            left.append(word)
    check_find_tests(left)
    if not effects:
        raise UnprovedCommand("`find` is not on the tables with these words")
    if any(one.script is not None or one.folder is not None for one in effects):
        raise UnprovedCommand(f"`{name}` runs a shell, or git, on what it finds")
    writes = tuple(dict.fromkeys(write for one in effects for write in one.writes))
    return CommandEffects(
        (name, *dict.fromkeys(program for one in effects for program in one.programs)),
        changes_state=any(one.changes_state for one in effects),
        writes=writes,
        rewrites=any(one.rewrites for one in effects),
    )


def split_starts(words: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    at = next((i for i, word in enumerate(words) if word.text[:1] in ("-", "(", "!")), len(words))
    return [*words[:at]] or [Word(".")], [*words[at:]]


def found_files(folders: Sequence[Word], words: Sequence[Word]) -> tuple[Word, ...]:
    tests = [word.text for word in words if word.is_literal and word.text in FIND_TESTS]
    names = [words[i + 1] for i, word in enumerate(words[:-1]) if word.is_literal and word.text == "-name"]
    simple = len(names) == 1 and names[0].is_literal and not {"-o", "-or", "-not"} & set(tests)
    simple &= not any(word.text == "!" for word in words)
    name = names[0].text if simple else "*"
    optional = not simple or any(test not in EXACT_TESTS or test in ("-maxdepth", "-mindepth") for test in tests)
    found = [pattern_below(folder, name, is_optional=optional) for folder in folders]
    if None in found:
        raise UnprovedCommand("where `find` begins is not in the text")
    return tuple(filter(None, found))


def pattern_below(folder: Word, name: str, *, is_optional: bool = True) -> Word | None:
    if folder.glob is None or folder.may_split:
        return None
    # The common beginning of all names in the folder
    fixed = folder.text.rstrip("/") if folder.is_literal else ""
    pattern = f"{folder.glob.rstrip('/')}/**/{name}"
    return Word(
        f"{fixed}/" if fixed else "", is_literal=False, may_be_several=True, pattern=pattern, is_optional=is_optional
    )


def list_find(name: str, words: Sequence[Word]) -> Lines:
    acts = any(word.text in LISTING_ACTIONS for word in words)
    if acts and not any(word.text == "-print0" for word in words):
        return None
    return found_files(split_starts(words)[0], words)


def files_below(folders: Sequence[Word]) -> Lines:
    found = [pattern_below(folder, "*") for folder in folders or (Word("."),)]
    return None if None in found else tuple(filter(None, found))


def list_ls(name: str, words: Sequence[Word]) -> Lines:
    parsed = parse_options(name, OptionRow("1dtr"), words)
    if not parsed.operands:
        return (Word("", is_literal=False, may_be_several=True, pattern="*", is_optional=True),)
    named = all(word.pattern is not None for word in parsed.operands) or parsed.has_option("-d")
    return parsed.operands if named else None


TARGET_FOLDER = "-t --target-directory"
CP = WriterRow(OptionRow("afidLPnpRruvxH", "", "archive force interactive dereference no-dereference no-clobber "
    "recursive update verbose one-file-system preserve no-target-directory remove-destination", "no-preserve"),
    "copied", folders=TARGET_FOLDER, recursive="-R -r --recursive -a --archive -d --no-dereference -P")  # fmt: skip
SCP = WriterRow(OptionRow("rpqCTOv346"), "copied", recursive="-r")
INSTALL = WriterRow(OptionRow("cCDpsvT", "gmo", "compare preserve-timestamps strip verbose", "group mode owner"),
    "copied", folders=TARGET_FOLDER)  # fmt: skip


def write_install(name: str, words: Sequence[Word]) -> Writes:
    row = replace(INSTALL.options, flags=INSTALL.options.flags + "d", long="directory verbose")
    if not any(word.is_literal and re.fullmatch(r"-[a-zA-Z]*d\w*|--directory", word.text) for word in words):
        return find_row_writes(name, INSTALL, words)
    parsed = parse_options(name, row, words)
    if not parsed.has_option("-d", "--directory"):
        raise UnprovedCommand(f"`{name}` is not on the tables with these words")
    return write_all(name, parsed.operands, edits_in_place=True, makes_folder=True)


def check_local(program: str, parsed: ParsedOptions) -> None:
    """Raise UnprovedCommand if an operand names another machine, or a container."""
    if not all(word.is_literal and ":" not in word.text for word in parsed.operands):
        raise UnprovedCommand(f"`{program}` with another machine, or with what is not in the text")


def write_scp(name: str, words: Sequence[Word]) -> Writes:
    check_local(name, parse_options(name, SCP.options, words))
    return find_row_writes(name, SCP, words)


RSYNC = OptionRow("avrlptgoDunPhzcqHAX", "", "archive recursive links perms times verbose quiet human-readable "
    "progress update checksum delete dry-run stats ignore-existing existing", "exclude include")  # fmt: skip


def write_rsync(name: str, words: Sequence[Word]) -> Writes:
    parsed = parse_options(name, RSYNC, words, takes_globs=True)
    operands = parsed.operands
    if len(operands) < 2 or any(":" in word.text for word in operands):
        raise UnprovedCommand("`rsync` with another machine, or without a target")
    target = () if parsed.has_option("-n", "--dry-run") else operands[-1:]
    return write_all(name, target, adds_names=True, may_be_link=True, is_recursive=parsed.has_option("--delete"))


def write_dd(name: str, words: Sequence[Word]) -> Writes:
    known = re.compile(r"(?:if|of|bs|ibs|obs|count|skip|seek|conv|status|iflag|oflag)=")
    if not all(word.is_literal and known.match(word.text) for word in words):
        raise UnprovedCommand("a word of `dd` is not literal, or not on the tables")
    return write_all(name, (Word(word.text[3:]) for word in words if word.text.startswith("of=")))


TEMPORARY_FOLDER = "/tmp"  # noqa: S108  nothing is made there: it is where mktemp would, unless TMPDIR says otherwise


def write_mktemp(name: str, words: Sequence[Word]) -> Writes:
    parsed = parse_options(name, OptionRow("dqt", "p", long="directory quiet tmpdir suffix"), words)
    folder = parsed.values("-p", "--tmpdir")
    place = folder[0] if folder else Word("" if parsed.operands and not parsed.has_option("-t") else TEMPORARY_FOLDER)
    made = parsed.operands[0] if parsed.operands else Word("tmp.XXXXXXXXXX")
    if not made.is_literal or not place.is_literal or (folder and not place.text):
        raise UnprovedCommand("the name of what `mktemp` makes is not in the text")
    return write_all(name, (Word(posixpath.join(place.text, made.text)),))


def write_chattr(name: str, words: Sequence[Word]) -> Writes:
    rest = list(words)
    deep = False
    while rest and rest[0].is_literal and re.fullmatch(r"-[RVf]+", rest[0].text):
        deep |= "R" in rest.pop(0).text
    if not rest or not rest[0].is_literal or not re.fullmatch(r"[-+=][a-zA-Z]+", rest[0].text):
        raise UnprovedCommand(f"the mode of `{name}` is not in the text")
    if any(word.may_be_option for word in rest[1:]):
        raise UnprovedCommand(f"a word of `{name}` may become any option")
    return write_all(name, rest[1:], is_recursive=deep, edits_in_place=True)


RECURSIVE = "-R -r --recursive"
GOVERNING = (DangerRule("", EVADES_CONTROL, "-i +i", words=r".*(?:\.orchestration|\.git|\.intentignore|"
    f"{'|'.join(re.escape(row.config_folder) for row in ROWS.values())}).*",
    is_irreversible=False),)  # fmt: skip

PROGRAMS = rows({
    "ls": Program(reads=harmless_row("ITw"), lists=list_ls),
    "dir vdir": Program(reads=harmless_row("ITw")),
    "eza exa du df pwd basename dirname realpath readlink": Program(reads=harmless_row()),
    "stat": Program(reads=harmless_row("cf")),
    "tree": Program(reads=OptionRow("adfilpsughDFvtcUrNnCxqQJX", "LPI",
        "charset device dirsfirst du filelimit gitignore help inodes noreport prune si sort version",
        "charset filelimit"), writes=WriterRow(OptionRow("adfilpsughDFvtcUrNnCxqQJX", "LPIo",
        "dirsfirst gitignore noreport prune"), "none", outputs="-o")),
    "file": Program(reads=OptionRow("bihkLNrsv0", "eFP", "brief dereference extension keep-going mime mime-encoding "
        "mime-type no-pad print0 raw")),
    "fd fdfind": Program(reads=OptionRow("HIuigsFaLp0q1", "teEdc",
        "absolute-path case-sensitive changed-before changed-within color exact-depth exclude extension fixed-strings "
        "follow full-path glob hidden ignore-case max-depth max-results min-depth no-ignore owner print0 quiet regex "
        "size type unrestricted", "changed-before changed-within color exact-depth exclude extension max-depth "
        "max-results min-depth owner size type"), roles="wrapper"),
    "find": Program(reads=read_find, effects=write_find, lists=list_find, version_options="--version", roles="runner"),
    "touch": Program(writes=WriterRow(OptionRow("acfhm", "drt", "no-create no-dereference", "date reference time"),
        edits_in_place=True)),
    "mkdir": Program(writes=WriterRow(OptionRow("pv", "m", "parents verbose", "mode"), edits_in_place=True,
        makes_folder=True)),
    "rmdir": Program(writes=WriterRow(OptionRow("v", "", "ignore-fail-on-non-empty verbose"), follows_links=False),
        roles="destroyer"),
    "rm": Program(writes=WriterRow(OptionRow("dfirRvI", "", "dir force interactive one-file-system recursive "
        "verbose"), recursive=RECURSIVE, follows_links=False), roles="destroyer"),
    "unlink": Program(writes=WriterRow(OptionRow(), follows_links=False), roles="destroyer"),
    "shred": Program(writes=WriterRow(OptionRow("fuvxz", "ns", "force remove verbose zero", "iterations size")),
        roles="destroyer"),
    "truncate": Program(writes=WriterRow(OptionRow("co", "sr", "no-create", "reference size")), roles="destroyer"),
    "cp": Program(writes=CP),
    "mv": Program(writes=WriterRow(OptionRow("finuvT", "", "force interactive no-clobber no-target-directory update "
        "verbose"), "moved", folders=TARGET_FOLDER, recursive="*", follows_links=False), roles="destroyer"),
    "ln": Program(writes=WriterRow(OptionRow("sfnvLPrT", "", "force no-dereference no-target-directory relative "
        "symbolic verbose"), "linked", folders=TARGET_FOLDER, follows_links=False)),
    "link": Program(writes=WriterRow(OptionRow(), "linked", follows_links=False)),
    "install": Program(writes=write_install, roles="editor"),
    "chmod": Program(writes=WriterRow(OptionRow("Rcfv", "", "changes quiet recursive silent verbose"), "rest",
        recursive=RECURSIVE, edits_in_place=True), danger=(DangerRule("", CHANGES_USERS,
        words=r"[ugoa]*\+[rwx]*s[rwxt]*|0?[4-7]\d{3}", is_irreversible=False),), roles="destroyer"),
    "chown chgrp": Program(writes=WriterRow(OptionRow("RcfvhHLP", "",
        "changes no-dereference quiet recursive silent verbose"), "rest", recursive=RECURSIVE, edits_in_place=True),
        roles="destroyer"),
    "setfattr": Program(writes=WriterRow(OptionRow("h", "nvx", "no-dereference", "name remove value"),
        edits_in_place=True), roles="editor"),
    "setfacl": Program(writes=WriterRow(OptionRow("bkRdn", "mx", "default recursive remove-all", "modify remove"),
        recursive=RECURSIVE, edits_in_place=True)),
    "fallocate": Program(writes=WriterRow(OptionRow("cdnpvxz", "lo",
        "collapse-range dig-holes keep-size punch-hole verbose zero-range", "length offset"), edits_in_place=True)),
    "dd": Program(writes=write_dd, danger=(DangerRule("", WORKS_ON_DISKS,
        words=r"of=/+dev/(?!(?:null|zero|full|stdout|stderr|tty|fd/\d+)$).*"),), stdin=StdinRule(ANY_NUMBER)),
    "rsync": Program(writes=write_rsync, roles="sender"),
    "mktemp": Program(writes=write_mktemp),
    "scp": Program(writes=write_scp, roles="sender"),
    "chattr": Program(writes=write_chattr, danger=GOVERNING, roles="editor"),
    "lsattr": Program(danger=GOVERNING),
    "srm": Program(roles="destroyer"),
})  # fmt: skip
