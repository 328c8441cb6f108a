"""Programs that write, and that need more than a row of the table: each answers what it writes, or raises Refused."""

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.policy.commands.parse.options import OptionRow, parse_options, word_set
from remit.policy.commands.parse.words import GLOB_CHARACTER, UnprovedCommand, Word, escape_glob
from remit.policy.commands.programs.archives import ARCHIVERS
from remit.policy.commands.programs.compilers import COMPILERS
from remit.policy.commands.programs.converters import PRODUCERS
from remit.policy.commands.programs.effects import CommandEffects, Write, write_to
from remit.policy.commands.programs.git_writes import write_git_command
from remit.policy.commands.programs.readers import FIND_TESTS
from remit.policy.commands.programs.sed_perl import is_plain_perl, is_plain_sed
from remit.policy.commands.programs.writer_rows import find_row_writes
from remit.policy.commands.programs.writers import VERB_WRITERS, WRITERS, WriterRow

RunCommand: TypeAlias = Callable[[Sequence[Word]], CommandEffects]
"""Proves a command that another one runs."""


def find_writes(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """What the program writes; raises Refused where neither a row nor a function tells."""
    special = SPECIAL_WRITERS.get(name)
    if special is not None:
        return special(name, words, run_command)
    if name in WRITE_FUNCTIONS:
        return CommandEffects((name,), changes_state=True, writes=WRITE_FUNCTIONS[name](name, words))
    if name not in WRITERS:
        raise UnprovedCommand(f"`{name}` is not on the tables")
    return CommandEffects((name,), changes_state=True, writes=find_row_writes(name, WRITERS[name], words))


def is_known_writer(name: str) -> bool:
    """Whether `change` knows the program at all."""
    return name in SPECIAL_WRITERS or name in WRITERS or name in WRITE_FUNCTIONS


def write_git(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    return write_git_command(name, words)


def write_by_verb(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    verb = words[0].text if words and words[0].is_literal else ""
    writer = VERB_WRITERS[name].get(verb)
    if writer is None:
        raise UnprovedCommand(f"what `{name} {verb}` does is not on the tables")
    if not writer.defaults_to_folder and all(word.may_be_option for word in words[1:]):
        raise UnprovedCommand(f"which files `{name} {verb}` takes is not in its words")
    return CommandEffects((name,), changes_state=True, writes=find_row_writes(f"{name} {verb}", writer, words[1:]))


def write_sed(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """`sed -i`: the files, and copies of them where the option has a suffix."""
    long = word_set("quiet silent regexp-extended expression null-data separate in-place follow-symlinks")
    row = OptionRow("nErzs", "e", "i", long=long, long_valued=frozenset({"expression"}))
    taken = parse_options(name, row, words, globs_are_operands=True)
    operands = [word for word in taken.operands if not word.is_literal or word.text]
    scripts = taken.values("-e", "--expression")
    if not scripts:
        scripts, operands = tuple(operands[:1]), operands[1:]
    if not scripts or not all(word.is_literal and is_plain_sed(word.text, text_at_end=True) for word in scripts):
        raise UnprovedCommand("a script of `sed` is not literal, or may write or run something")
    if not taken.has_option("-i", "--in-place"):
        return CommandEffects((name,), changes_state=True)
    follows = taken.has_option("--follow-symlinks")
    files = [replace(write_to(word, name), follows_links=follows, edits_in_place=True) for word in operands]
    suffix = "".join(word.text for word in taken.values("-i", "--in-place"))
    return CommandEffects((name,), changes_state=True, writes=(*files, *backup_copies(files, suffix)))


def backup_copies(files: Sequence[Write], suffix: str) -> list[Write]:
    """The copies that `-i.bak` leaves; `*` in it stands for the name, and `/` puts it elsewhere."""
    if not suffix:
        return []
    if "*" in suffix or "/" in suffix:
        raise UnprovedCommand(f"where copies go by the suffix {suffix!r} is not on the tables")
    return [replace(file, path=file.path + suffix, follows_links=False) for file in files]


def write_perl(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """`perl -pi -e 's/…/…/'`, the script being a substitution that runs nothing."""
    scripts: list[Word] = []
    suffix: str | None = None
    rest = list(words)
    while rest and rest[0].is_literal and rest[0].text.startswith("-") and len(rest[0].text) > 1:
        letters = rest.pop(0).text[1:]
        if letters == "-":
            break
        found = re.fullmatch(r"(0[0-7]*|0777)?([plnwW]*)(?:i([\w.~]*)|(e))?", letters)
        if found is None:
            raise UnprovedCommand(f"'-{letters}' of `perl` is not on the tables")
        suffix = found[3] if found[3] is not None else suffix
        if found[4]:
            scripts += rest[:1]
            rest = rest[1:]
    if suffix is None or not scripts or not all(word.is_literal and is_plain_perl(word.text) for word in scripts):
        raise UnprovedCommand("`perl` runs a program")
    files = [replace(write_to(word, name), follows_links=False, edits_in_place=True) for word in rest]
    return CommandEffects((name,), changes_state=True, writes=(*files, *backup_copies(files, suffix)))


def write_tar(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """Archives that are written, and such as are taken out into a folder. Not `-P`, and nothing that runs programs."""
    bundled = bool(words) and words[0].is_literal and not words[0].text.startswith("-")
    if bundled:
        words = (Word("-" + words[0].text), *words[1:]) if re.fullmatch(r"[a-zA-Z]+", words[0].text) else words
    long = word_set("create extract get gzip bzip2 xz zstd verbose auto-compress keep-old-files no-same-owner overwrite "  # noqa: E501
                 "no-same-permissions exclude-vcs numeric-owner sort mtime owner group")  # fmt: skip
    valued = word_set("file directory exclude strip-components")
    taken = parse_options(
        name, OptionRow("cxzjJavkmphoU", "fC", long=long, long_valued=valued), words, globs_are_operands=True
    )
    creates, extracts = taken.has_option("-c", "--create"), taken.has_option("-x", "--extract", "--get")
    archives, folders = taken.values("-f", "--file"), taken.values("-C", "--directory")
    if creates == extracts or len(archives) > 1 or any(":" in word.text for word in archives):
        raise UnprovedCommand("what `tar` does is not in its words")
    if creates:
        target = [word for word in archives if not word.is_literal or word.text != "-"]
        return CommandEffects((name,), changes_state=True, writes=tuple(write_to(word, name) for word in target))
    if len(folders) > 1:
        raise UnprovedCommand("`tar` takes files out into several folders")
    into = folders[0] if folders else Word(".")
    return CommandEffects(
        (name,), changes_state=True, writes=(replace(write_to(into, name), adds_names=True, may_be_link=True),)
    )


def write_dd(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    known = re.compile(r"(?:if|of|bs|ibs|obs|count|skip|seek|conv|status|iflag|oflag)=")
    if not all(word.is_literal and known.match(word.text) for word in words):
        raise UnprovedCommand("a word of `dd` is not literal, or not on the tables")
    outputs = [Word(word.text[3:]) for word in words if word.text.startswith("of=")]
    return CommandEffects((name,), changes_state=True, writes=tuple(write_to(word, name) for word in outputs))


CURL_OPTIONS = OptionRow(
    "sSLfgikIvN46qOJRG#k0",
    "oHAbeurmDc",
    long=word_set("silent show-error location fail globoff include insecure head verbose compressed remote-name "
               "create-dirs no-progress-meter progress-bar http1.1 http2 fail-with-body ipv4 ipv6"),
    long_valued=word_set("output header user-agent cookie referer user range max-time connect-timeout retry retry-delay "  # noqa: E501
                      "cookie-jar dump-header output-dir"),
)  # fmt: skip


def write_curl(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """Fetching: what is sent, and every URL, must be in the text. No body, no settings file, no list of URLs."""
    taken = parse_options(name, CURL_OPTIONS, words)
    if taken.has_option("-J") or not all(
        word.is_literal for word in (*taken.operands, *taken.values("-H", "--header", "-b"))
    ):
        raise UnprovedCommand("what `curl` asks for, or of whom, is not in the text")
    folder = taken.values("--output-dir")
    if any("#" in word.text for word in taken.values("-o", "--output")):
        raise UnprovedCommand("`curl` puts a part of the URL for a `#1` in the name of its output")
    outputs = [word for word in taken.values("-o", "--output") if word.text != "-"]
    if taken.has_option("-O", "--remote-name"):
        outputs += [Word(name_in_url(word.text)) for word in taken.operands]
    if folder:
        outputs = [Word(posixpath.join(folder[0].text, word.text), is_literal=folder[0].is_literal) for word in outputs]
    outputs += [w for w in taken.values("-c", "--cookie-jar", "-D", "--dump-header") if w.text != "-"]
    return CommandEffects((name,), changes_state=True, writes=tuple(write_to(word, name) for word in outputs))


def name_in_url(url: str) -> str:
    """The name that a download gets from its URL."""
    found = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    if not found or GLOB_CHARACTER.search(found) or "{" in found:
        raise UnprovedCommand(f"the name of what is at {url!r} is not in the text")
    return found


WGET_OPTIONS = OptionRow(
    "qvcN46",
    "OPtTUoa",
    long=word_set("quiet verbose no-verbose continue no-check-certificate timestamping show-progress"),
    long_valued=word_set("output-document directory-prefix tries timeout header user-agent output-file append-output"),
)


def write_wget(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    letters = [replace(word, text="--no-verbose") if word.text == "-nv" and word.is_literal else word for word in words]
    taken = parse_options(name, WGET_OPTIONS, letters)
    if not all(word.is_literal for word in taken.operands):
        raise UnprovedCommand("what `wget` asks for is not in the text")
    outputs = list(taken.values("-O", "--output-document"))
    if not outputs:
        folder = "".join(word.text for word in taken.values("-P", "--directory-prefix"))
        outputs = [Word(posixpath.join(folder, name_in_url(word.text))) for word in taken.operands]
    outputs += taken.values("-o", "-a", "--output-file", "--append-output")
    return CommandEffects(
        (name,), changes_state=True, writes=tuple(write_to(word, name) for word in outputs if word.text != "-")
    )


def write_rsync(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """Between folders of this machine."""
    long = word_set("archive recursive links perms times verbose quiet human-readable progress update checksum delete "
                 "dry-run stats ignore-existing existing exclude include")  # fmt: skip
    row = OptionRow("avrlptgoDunPhzcqHAX", "", long=long, long_valued=word_set("exclude include"))
    taken = parse_options(name, row, words, globs_are_operands=True)
    operands = taken.operands
    if len(operands) < 2 or any(":" in word.text for word in operands):
        raise UnprovedCommand("`rsync` with another machine, or without a target")
    if taken.has_option("-n", "--dry-run"):
        return CommandEffects((name,), changes_state=True)
    target = write_to(operands[-1], name)
    write = replace(target, adds_names=True, may_be_link=True, is_recursive=taken.has_option("--delete"))
    return CommandEffects((name,), changes_state=True, writes=(write,))


TEMPORARY_FOLDER = "/tmp"  # noqa: S108  nothing is made there: it is where mktemp would, unless TMPDIR says otherwise


def write_mktemp(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    taken = parse_options(name, OptionRow("dqt", "p", long=word_set("directory quiet tmpdir suffix")), words)
    folder = taken.values("-p", "--tmpdir")
    place = folder[0] if folder else Word("" if taken.operands and not taken.has_option("-t") else TEMPORARY_FOLDER)
    made = taken.operands[0] if taken.operands else Word("tmp.XXXXXXXXXX")
    if not made.is_literal or not place.is_literal or (folder and not place.text):
        raise UnprovedCommand("the name of what `mktemp` makes is not in the text")
    return CommandEffects(
        (name,), changes_state=True, writes=(write_to(Word(posixpath.join(place.text, made.text)), name),)
    )


XXD_WRITER = WriterRow(OptionRow("abeEipru", "cglos", max_operands=2), "second")

LEADING_OPTIONS = word_set("-H -L -P")
"""Options of find that stand before the folders."""


def write_xxd(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """`xxd IN OUT`. Options do not bundle: `-ps` is one option, so only single letters are sure."""
    if any(word.text.startswith("-") and len(word.text) > 2 for word in words):
        raise UnprovedCommand("`xxd` with an option of several letters")
    return CommandEffects((name,), changes_state=True, writes=find_row_writes(name, XXD_WRITER, words))


def write_find(name: str, words: Sequence[Word], run_command: RunCommand) -> CommandEffects:
    """`-delete`, `-fprint FILE`, and `-exec COMMAND`, what is found put for its `{}`."""
    given = [word for word in words if word.text not in LEADING_OPTIONS]
    at = next((i for i, word in enumerate(given) if word.text[:1] in ("-", "(", "!")), len(given))
    starts, tests = given[:at] or [Word(".")], given[at:]
    runs: list[CommandEffects] = []
    left: list[Word] = []
    while tests:
        word = tests.pop(0)
        if word.text in ("-exec", "-fprint", "-fls", "-fprint0", "-fprintf") and word.is_literal:
            runs.append(run_find_action(name, word.text, tests, found_files(starts, words), run_command))
        elif word.text == "-delete":
            gone = (replace(write_to(item, name), follows_links=False) for item in found_files(starts, words))
            runs.append(CommandEffects((), changes_state=True, writes=tuple(gone)))
        else:
            left.append(word)
    check_find_tests(left)
    if not runs:
        raise UnprovedCommand("`find` is not on the tables with these words")
    return join_runs(name, runs)


def run_find_action(
    name: str, action: str, tests: list[Word], found: Sequence[Word], run_command: RunCommand
) -> CommandEffects:
    """What one action of find writes; its words are taken off `tests`."""
    if action != "-exec":
        if not tests:
            raise UnprovedCommand(f"`find {action}` lacks its file")
        return CommandEffects((), changes_state=True, writes=(write_to(tests.pop(0), name),))
    command: list[Word] = []
    while tests and not (tests[0].text == ";" or (tests[0].text == "+" and command and command[-1].text == "{}")):
        command.append(tests.pop(0))
    if not tests or not command or "{}" in command[0].text:
        raise UnprovedCommand("`find -exec` without an end, or without a literal command")
    tests.pop(0)
    runs = [run_command([substitute_word(word, item) for word in command]) for item in found]
    return join_runs("", runs)


def substitute_word(word: Word, value: Word, mark: str = "{}") -> Word:
    """The word, `item` put for the mark in it."""
    if mark not in word.text:
        return word
    glob = value.glob
    before, _, after = word.text.partition(mark)
    if not word.is_literal or glob is None or mark in after:
        raise UnprovedCommand(f"{word.text!r} may become any word")
    if value.is_literal:
        return replace(value, text=before + value.text + after)
    return replace(value, text=before + value.text, pattern=escape_glob(before) + glob + escape_glob(after))


def join_runs(name: str, runs: Sequence[CommandEffects]) -> CommandEffects:
    """Several commands as one; no more than one of them may hand on a script."""
    scripts = {run.script for run in runs if run.script is not None}
    if scripts or any(run.folder is not None for run in runs):
        raise UnprovedCommand(f"`{name or 'find'}` runs a shell, or git, on what it finds")
    programs = tuple(dict.fromkeys((name, *(p for run in runs for p in run.programs)) if name else ()))
    writes = tuple(dict.fromkeys(write for run in runs for write in run.writes))
    return CommandEffects(programs, changes_state=any(run.changes_state for run in runs), writes=writes)


EXACT_TESTS = word_set("-name -type -print -print0 -delete -exec -maxdepth -mindepth")


def found_files(folders: Sequence[Word], words: Sequence[Word]) -> tuple[Word, ...]:
    """What find finds, as patterns; tests other than the name make each of them a maybe."""
    tests = [word.text for word in words if word.is_literal and word.text in FIND_TESTS]
    given = [words[i + 1] for i, word in enumerate(words[:-1]) if word.is_literal and word.text == "-name"]
    simple = len(given) == 1 and given[0].is_literal and not {"-o", "-or", "-not"} & set(tests)
    simple &= not any(word.text == "!" for word in words)
    name = given[0].text if simple else "*"
    maybe = not simple or any(test not in EXACT_TESTS or test in ("-maxdepth", "-mindepth") for test in tests)
    found: list[Word] = []
    for start in folders:
        if start.glob is None or start.may_split:
            raise UnprovedCommand("where `find` begins is not in the text")
        at = start.glob.rstrip("/") or "/"
        fixed = start.text.rstrip("/") if start.is_literal else ""
        found.append(
            Word(
                f"{fixed}/" if fixed else "",
                is_literal=False,
                may_be_several=True,
                pattern=f"{at}/**/{name}",
                is_optional=maybe,
            )
        )
    return tuple(found)


def check_find_tests(words: Sequence[Word]) -> None:
    """The words of find that are left only test or print; raises Refused."""
    for word in words:
        if word.may_split or (not word.is_literal and word.text[:1] in ("", "-", "(", "!")):
            raise UnprovedCommand("a word of `find` may become any option")
        number = re.fullmatch(r"-\d+[a-zA-Z]?", word.text, re.ASCII)
        if word.text.startswith("-") and word.text not in FIND_TESTS and number is None:
            raise UnprovedCommand(f"{word.text!r} of `find` is not on the tables")


WRITE_FUNCTIONS = {**ARCHIVERS, **COMPILERS, **PRODUCERS}

SPECIAL_WRITERS: dict[str, Callable[[str, Sequence[Word], RunCommand], CommandEffects]] = {
    "git": write_git,
    **dict.fromkeys(VERB_WRITERS, write_by_verb),
    "sed": write_sed,
    "gsed": write_sed,
    "perl": write_perl,
    "tar": write_tar,
    "dd": write_dd,
    "curl": write_curl,
    "wget": write_wget,
    "rsync": write_rsync,
    "mktemp": write_mktemp,
    "find": write_find,
    "xxd": write_xxd,
}
