"""Programs that write, and that need more than a row of the table: each answers what it writes, or raises Refused."""

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.policy.commands.archives import ARCHIVERS
from remit.policy.commands.compilers import COMPILERS
from remit.policy.commands.effects import Run, Write, written
from remit.policy.commands.git_writes import changed_by_git
from remit.policy.commands.little import is_plain_perl, is_plain_sed
from remit.policy.commands.options import Row, names, take
from remit.policy.commands.patterns import GLOB, escaped
from remit.policy.commands.producing import PRODUCERS
from remit.policy.commands.tables import FIND_TESTS
from remit.policy.commands.words import Refused, Word
from remit.policy.commands.writers import VERBS, WRITERS, Writer
from remit.policy.commands.writing import writes_of

Again: TypeAlias = Callable[[Sequence[Word]], Run]
"""Proves a command that another one runs."""


def change(name: str, words: Sequence[Word], again: Again) -> Run:
    """What the program writes; raises Refused where neither a row nor a function tells."""
    special = CHANGING.get(name)
    if special is not None:
        return special(name, words, again)
    if name in TOLD:
        return Run((name,), acts=True, writes=TOLD[name](name, words))
    if name not in WRITERS:
        raise Refused(f"`{name}` is not on the tables")
    return Run((name,), acts=True, writes=writes_of(name, WRITERS[name], words))


def known_writer(name: str) -> bool:
    """Whether `change` knows the program at all."""
    return name in CHANGING or name in WRITERS or name in TOLD


def _git(name: str, words: Sequence[Word], again: Again) -> Run:
    return changed_by_git(name, words)


def _by_verb(name: str, words: Sequence[Word], again: Again) -> Run:
    verb = words[0].text if words and words[0].literal else ""
    writer = VERBS[name].get(verb)
    if writer is None:
        raise Refused(f"what `{name} {verb}` does is not on the tables")
    if not writer.here and all(word.may_be_option for word in words[1:]):
        raise Refused(f"which files `{name} {verb}` takes is not in its words")
    return Run((name,), acts=True, writes=writes_of(f"{name} {verb}", writer, words[1:]))


def _sed(name: str, words: Sequence[Word], again: Again) -> Run:
    """`sed -i`: the files, and copies of them where the option has a suffix."""
    long = names("quiet silent regexp-extended expression null-data separate in-place follow-symlinks")
    row = Row("nErzs", "e", "i", long=long, long_valued=frozenset({"expression"}))
    taken = take(name, row, words, globs=True)
    operands = [word for word in taken.operands if not word.literal or word.text]
    scripts = taken.values("-e", "--expression")
    if not scripts:
        scripts, operands = tuple(operands[:1]), operands[1:]
    if not scripts or not all(word.literal and is_plain_sed(word.text, text_at_end=True) for word in scripts):
        raise Refused("a script of `sed` is not literal, or may write or run something")
    if not taken.has("-i", "--in-place"):
        return Run((name,), acts=True)
    follows = taken.has("--follow-symlinks")
    files = [replace(written(word, name), follows=follows, edits=True) for word in operands]
    suffix = "".join(word.text for word in taken.values("-i", "--in-place"))
    return Run((name,), acts=True, writes=(*files, *copies(files, suffix)))


def copies(files: Sequence[Write], suffix: str) -> list[Write]:
    """The copies that `-i.bak` leaves; `*` in it stands for the name, and `/` puts it elsewhere."""
    if not suffix:
        return []
    if "*" in suffix or "/" in suffix:
        raise Refused(f"where copies go by the suffix {suffix!r} is not on the tables")
    return [replace(file, path=file.path + suffix, follows=False) for file in files]


def _perl(name: str, words: Sequence[Word], again: Again) -> Run:
    """`perl -pi -e 's/…/…/'`, the script being a substitution that runs nothing."""
    scripts: list[Word] = []
    suffix: str | None = None
    rest = list(words)
    while rest and rest[0].literal and rest[0].text.startswith("-") and len(rest[0].text) > 1:
        letters = rest.pop(0).text[1:]
        if letters == "-":
            break
        found = re.fullmatch(r"(0[0-7]*|0777)?([plnwW]*)(?:i([\w.~]*)|(e))?", letters)
        if found is None:
            raise Refused(f"'-{letters}' of `perl` is not on the tables")
        suffix = found[3] if found[3] is not None else suffix
        if found[4]:
            scripts += rest[:1]
            rest = rest[1:]
    if suffix is None or not scripts or not all(word.literal and is_plain_perl(word.text) for word in scripts):
        raise Refused("`perl` runs a program")
    files = [replace(written(word, name), follows=False, edits=True) for word in rest]
    return Run((name,), acts=True, writes=(*files, *copies(files, suffix)))


def _tar(name: str, words: Sequence[Word], again: Again) -> Run:
    """Archives that are written, and such as are taken out into a folder. Not `-P`, and nothing that runs programs."""
    bundled = bool(words) and words[0].literal and not words[0].text.startswith("-")
    if bundled:
        words = (Word("-" + words[0].text), *words[1:]) if re.fullmatch(r"[a-zA-Z]+", words[0].text) else words
    long = names("create extract get gzip bzip2 xz zstd verbose auto-compress keep-old-files no-same-owner overwrite "
                 "no-same-permissions exclude-vcs numeric-owner sort mtime owner group")  # fmt: skip
    valued = names("file directory exclude strip-components")
    taken = take(name, Row("cxzjJavkmphoU", "fC", long=long, long_valued=valued), words, globs=True)
    creates, extracts = taken.has("-c", "--create"), taken.has("-x", "--extract", "--get")
    archives, folders = taken.values("-f", "--file"), taken.values("-C", "--directory")
    if creates == extracts or len(archives) > 1 or any(":" in word.text for word in archives):
        raise Refused("what `tar` does is not in its words")
    if creates:
        target = [word for word in archives if not word.literal or word.text != "-"]
        return Run((name,), acts=True, writes=tuple(written(word, name) for word in target))
    if len(folders) > 1:
        raise Refused("`tar` takes files out into several folders")
    into = folders[0] if folders else Word(".")
    return Run((name,), acts=True, writes=(replace(written(into, name), opens=True, links=True),))


def _dd(name: str, words: Sequence[Word], again: Again) -> Run:
    known = re.compile(r"(?:if|of|bs|ibs|obs|count|skip|seek|conv|status|iflag|oflag)=")
    if not all(word.literal and known.match(word.text) for word in words):
        raise Refused("a word of `dd` is not literal, or not on the tables")
    outputs = [Word(word.text[3:]) for word in words if word.text.startswith("of=")]
    return Run((name,), acts=True, writes=tuple(written(word, name) for word in outputs))


CURL = Row(
    "sSLfgikIvN46qOJRG#k0",
    "oHAbeurmDc",
    long=names("silent show-error location fail globoff include insecure head verbose compressed remote-name "
               "create-dirs no-progress-meter progress-bar http1.1 http2 fail-with-body ipv4 ipv6"),
    long_valued=names("output header user-agent cookie referer user range max-time connect-timeout retry retry-delay "
                      "cookie-jar dump-header output-dir"),
)  # fmt: skip


def _curl(name: str, words: Sequence[Word], again: Again) -> Run:
    """Fetching: what is sent, and every URL, must be in the text. No body, no settings file, no list of URLs."""
    taken = take(name, CURL, words)
    if taken.has("-J") or not all(word.literal for word in (*taken.operands, *taken.values("-H", "--header", "-b"))):
        raise Refused("what `curl` asks for, or of whom, is not in the text")
    folder = taken.values("--output-dir")
    if any("#" in word.text for word in taken.values("-o", "--output")):
        raise Refused("`curl` puts a part of the URL for a `#1` in the name of its output")
    outputs = [word for word in taken.values("-o", "--output") if word.text != "-"]
    if taken.has("-O", "--remote-name"):
        outputs += [Word(name_in(word.text)) for word in taken.operands]
    if folder:
        outputs = [Word(posixpath.join(folder[0].text, word.text), literal=folder[0].literal) for word in outputs]
    outputs += [w for w in taken.values("-c", "--cookie-jar", "-D", "--dump-header") if w.text != "-"]
    return Run((name,), acts=True, writes=tuple(written(word, name) for word in outputs))


def name_in(url: str) -> str:
    """The name that a download gets from its URL."""
    found = url.partition("?")[0].rstrip("/").rpartition("/")[2]
    if not found or GLOB.search(found) or "{" in found:
        raise Refused(f"the name of what is at {url!r} is not in the text")
    return found


WGET = Row(
    "qvcN46",
    "OPtTUoa",
    long=names("quiet verbose no-verbose continue no-check-certificate timestamping show-progress"),
    long_valued=names("output-document directory-prefix tries timeout header user-agent output-file append-output"),
)


def _wget(name: str, words: Sequence[Word], again: Again) -> Run:
    letters = [replace(word, text="--no-verbose") if word.text == "-nv" and word.literal else word for word in words]
    taken = take(name, WGET, letters)
    if not all(word.literal for word in taken.operands):
        raise Refused("what `wget` asks for is not in the text")
    outputs = list(taken.values("-O", "--output-document"))
    if not outputs:
        folder = "".join(word.text for word in taken.values("-P", "--directory-prefix"))
        outputs = [Word(posixpath.join(folder, name_in(word.text))) for word in taken.operands]
    outputs += taken.values("-o", "-a", "--output-file", "--append-output")
    return Run((name,), acts=True, writes=tuple(written(word, name) for word in outputs if word.text != "-"))


def _rsync(name: str, words: Sequence[Word], again: Again) -> Run:
    """Between folders of this machine."""
    long = names("archive recursive links perms times verbose quiet human-readable progress update checksum delete "
                 "dry-run stats ignore-existing existing exclude include")  # fmt: skip
    row = Row("avrlptgoDunPhzcqHAX", "", long=long, long_valued=names("exclude include"))
    taken = take(name, row, words, globs=True)
    operands = taken.operands
    if len(operands) < 2 or any(":" in word.text for word in operands):
        raise Refused("`rsync` with another machine, or without a target")
    if taken.has("-n", "--dry-run"):
        return Run((name,), acts=True)
    target = written(operands[-1], name)
    write = replace(target, opens=True, links=True, below=taken.has("--delete"))
    return Run((name,), acts=True, writes=(write,))


TEMPORARY = "/tmp"  # noqa: S108  nothing is made there: it is where mktemp would, unless TMPDIR says otherwise


def _mktemp(name: str, words: Sequence[Word], again: Again) -> Run:
    taken = take(name, Row("dqt", "p", long=names("directory quiet tmpdir suffix")), words)
    folder = taken.values("-p", "--tmpdir")
    place = folder[0] if folder else Word("" if taken.operands and not taken.has("-t") else TEMPORARY)
    made = taken.operands[0] if taken.operands else Word("tmp.XXXXXXXXXX")
    if not made.literal or not place.literal or (folder and not place.text):
        raise Refused("the name of what `mktemp` makes is not in the text")
    return Run((name,), acts=True, writes=(written(Word(posixpath.join(place.text, made.text)), name),))


XXD = Writer(Row("abeEipru", "cglos", operands=2), "second")

LEADING = names("-H -L -P")
"""Options of find that stand before the folders."""


def _xxd(name: str, words: Sequence[Word], again: Again) -> Run:
    """`xxd IN OUT`. Options do not bundle: `-ps` is one option, so only single letters are sure."""
    if any(word.text.startswith("-") and len(word.text) > 2 for word in words):
        raise Refused("`xxd` with an option of several letters")
    return Run((name,), acts=True, writes=writes_of(name, XXD, words))


def _find(name: str, words: Sequence[Word], again: Again) -> Run:
    """`-delete`, `-fprint FILE`, and `-exec COMMAND`, what is found put for its `{}`."""
    given = [word for word in words if word.text not in LEADING]
    at = next((i for i, word in enumerate(given) if word.text[:1] in ("-", "(", "!")), len(given))
    starts, tests = given[:at] or [Word(".")], given[at:]
    runs: list[Run] = []
    left: list[Word] = []
    while tests:
        word = tests.pop(0)
        if word.text in ("-exec", "-fprint", "-fls", "-fprint0", "-fprintf") and word.literal:
            runs.append(_action(name, word.text, tests, found_by(starts, words), again))
        elif word.text == "-delete":
            gone = (replace(written(item, name), follows=False) for item in found_by(starts, words))
            runs.append(Run((), acts=True, writes=tuple(gone)))
        else:
            left.append(word)
    check_tests(left)
    if not runs:
        raise Refused("`find` is not on the tables with these words")
    return joined_runs(name, runs)


def _action(name: str, action: str, tests: list[Word], found: Sequence[Word], again: Again) -> Run:
    """What one action of find writes; its words are taken off `tests`."""
    if action != "-exec":
        if not tests:
            raise Refused(f"`find {action}` lacks its file")
        return Run((), acts=True, writes=(written(tests.pop(0), name),))
    command: list[Word] = []
    while tests and not (tests[0].text == ";" or (tests[0].text == "+" and command and command[-1].text == "{}")):
        command.append(tests.pop(0))
    if not tests or not command or "{}" in command[0].text:
        raise Refused("`find -exec` without an end, or without a literal command")
    tests.pop(0)
    runs = [again([put(word, item) for word in command]) for item in found]
    return joined_runs("", runs)


def put(word: Word, item: Word, mark: str = "{}") -> Word:
    """The word, `item` put for the mark in it."""
    if mark not in word.text:
        return word
    glob = item.glob
    before, _, after = word.text.partition(mark)
    if not word.literal or glob is None or mark in after:
        raise Refused(f"{word.text!r} may become any word")
    if item.literal:
        return replace(item, text=before + item.text + after)
    return replace(item, text=before + item.text, pattern=escaped(before) + glob + escaped(after))


def joined_runs(name: str, runs: Sequence[Run]) -> Run:
    """Several commands as one; no more than one of them may hand on a script."""
    scripts = {run.script for run in runs if run.script is not None}
    if scripts or any(run.folder is not None for run in runs):
        raise Refused(f"`{name or 'find'}` runs a shell, or git, on what it finds")
    programs = tuple(dict.fromkeys((name, *(p for run in runs for p in run.programs)) if name else ()))
    writes = tuple(dict.fromkeys(write for run in runs for write in run.writes))
    return Run(programs, acts=any(run.acts for run in runs), writes=writes)


EXACT = names("-name -type -print -print0 -delete -exec -maxdepth -mindepth")


def found_by(starts: Sequence[Word], words: Sequence[Word]) -> tuple[Word, ...]:
    """What find finds, as patterns; tests other than the name make each of them a maybe."""
    tests = [word.text for word in words if word.literal and word.text in FIND_TESTS]
    given = [words[i + 1] for i, word in enumerate(words[:-1]) if word.literal and word.text == "-name"]
    simple = len(given) == 1 and given[0].literal and not {"-o", "-or", "-not"} & set(tests)
    simple &= not any(word.text == "!" for word in words)
    name = given[0].text if simple else "*"
    maybe = not simple or any(test not in EXACT or test in ("-maxdepth", "-mindepth") for test in tests)
    found: list[Word] = []
    for start in starts:
        if start.glob is None or start.splits:
            raise Refused("where `find` begins is not in the text")
        at = start.glob.rstrip("/") or "/"
        fixed = start.text.rstrip("/") if start.literal else ""
        found.append(
            Word(f"{fixed}/" if fixed else "", literal=False, many=True, pattern=f"{at}/**/{name}", maybe=maybe)
        )
    return tuple(found)


def check_tests(words: Sequence[Word]) -> None:
    """The words of find that are left only test or print; raises Refused."""
    for word in words:
        if word.splits or (not word.literal and word.text[:1] in ("", "-", "(", "!")):
            raise Refused("a word of `find` may become any option")
        number = re.fullmatch(r"-\d+[a-zA-Z]?", word.text, re.ASCII)
        if word.text.startswith("-") and word.text not in FIND_TESTS and number is None:
            raise Refused(f"{word.text!r} of `find` is not on the tables")


TOLD = {**ARCHIVERS, **COMPILERS, **PRODUCERS}

CHANGING: dict[str, Callable[[str, Sequence[Word], Again], Run]] = {
    "git": _git,
    **dict.fromkeys(VERBS, _by_verb),
    "sed": _sed,
    "gsed": _sed,
    "perl": _perl,
    "tar": _tar,
    "dd": _dd,
    "curl": _curl,
    "wget": _wget,
    "rsync": _rsync,
    "mktemp": _mktemp,
    "find": _find,
    "xxd": _xxd,
}
