"""Whether a command is dangerous whatever the scope, told from its words.

This looks at texts that the walk of `proof` refuses as well, so it reads them with the shell's words alone: it may find
too much in a strange text, and finds nothing in what a program makes up when it runs.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

from remit.core.call import REMIT_COMMANDS
from remit.core.secrets.secret_files import is_secret_file
from remit.core.shell.simple_commands import SimpleCommand, UnreadableShell, parse_simple_commands
from remit.policy.commands.programs.danger_rules import (
    CHANGING_CODE,
    CONTROL_FILES,
    DANGER_RULES,
    DESTROYERS,
    EDITORS,
    ENVIRONMENT_PRINTERS,
    EVADES_CONTROL,
    FETCHERS,
    INTERPRETERS,
    PRECIOUS_PLACES,
    RULED_PROGRAMS,
    SENDERS,
    SHELLS,
    VALUED_LETTERS,
    WHOLE_FOLDER,
    WRAPPER_PROGRAMS,
    DangerRule,
)

MAX_CHARS = 16 * 1024
"""Characters that are looked at. The patterns are compiled when they are needed, not at the start."""

MAX_SHELL_DEPTH = 3
"""Shells within shells."""

MAX_WRAPPED_STARTS = 12
"""Words after a wrapper at which the command that it runs may begin."""

ASSIGNMENT = r"(?a)\w+\+?="
FETCH_SUBSTITUTION = r"(?:\$\(|`|<\()\s*(?:sudo\s+)?(?:curl|wget|fetch|http|xh|aria2c)\b"
DANGER_SIGNS = (
    (r">\|?\s*/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mem|kmem|port|mapper)", "works on disks"),
    (r"/dev/(?:tcp|udp)/", "opens a connection of its own"),
    (r"(\S{1,40})\s*\(\)\s*\{\s*\1\s*\|\s*\1\s*&\s*\}", "starts itself without end"),
)
"""What says enough in any text."""

SUBSTITUTION = r"(?:\$\(|`|<\()([^()`]*)"


NARROWING_TESTS = frozenset({"-name", "-iname", "-path", "-regex", "-empty", "-newer", "-mtime", "-maxdepth"})
"""Tests of find that leave more than they take."""


class Danger(Struct, frozen=True):
    """What is dangerous, and by which words. `lasting`: nothing brings it back. `barred`: it is no agent's to do."""

    reason: str
    is_irreversible: bool = True
    is_forbidden: bool = False


def find_danger(text: str, written_whole: Sequence[str] | None = None) -> Danger | None:
    """The worst danger of a command. `whole` are the places of which it writes everything, where that is known."""
    if len(text) > MAX_CHARS:
        return None
    for found, why in DANGER_SIGNS:
        if hit := re.search(found, text):
            return Danger(f"{hit[0][:60]!r}: {why}")
    try:
        commands = [*find_program_calls(text)]
    except UnreadableShell:
        return None
    found = [*filter(None, (find_pipe_danger(commands), *(danger_of_call(one, written_whole) for one in commands)))]
    if not found or any(one.name in DESTROYERS for one in commands):
        found += filter(None, [find_whole_write(written_whole)])
    return max(found, key=lambda danger: (danger.is_forbidden, danger.is_irreversible), default=None)


def find_unseen_program(text: str, programs: Sequence[str]) -> str | None:
    """A program with rows of its own that the text runs, and that is not seen here; None where there is none."""
    try:
        seen = {one.name for one in find_program_calls(text)}
    except UnreadableShell:
        seen = set[str]()
    return next((name for name in programs if name in RULED_PROGRAMS and name not in seen), None)


class ProgramCall(Struct, frozen=True):
    """One program with its words, and the operator before it. `there`: the shell changed its folder before it."""

    name: str
    words: tuple[str, ...]
    operator: str = ""
    folder_changed: bool = False

    @property
    def text(self) -> str:
        """The command for people, cut."""
        return " ".join((self.name, *self.words))[:80]


def find_program_calls(text: str, depth: int = 0) -> Iterator[ProgramCall]:
    """The programs that a text runs, what wrappers and literal scripts run included. Raises UnreadableShell."""
    there = False
    for one in parse_simple_commands(text):
        words = skip_assignments(one)
        if not words:
            continue
        there |= words[0] in ("cd", "pushd")
        first = ProgramCall(words[0].rpartition("/")[2], words[1:], one.before, there)
        yield first
        if first.name not in WRAPPER_PROGRAMS and first.name != "git":
            continue
        for at in range(1, min(len(words), MAX_WRAPPED_STARTS) if first.name in WRAPPER_PROGRAMS else 0):
            name = words[at].rpartition("/")[2]
            if (
                name in RULED_PROGRAMS
                or name in DESTROYERS
                or name in SENDERS
                or name in INTERPRETERS
                or name == "remit"
            ):
                yield ProgramCall(name, words[at + 1 :], one.before, there)
        if depth < MAX_SHELL_DEPTH:
            for word in words[1:]:
                if first.name in WRAPPER_PROGRAMS and re.search(r"\s", word) and not word.startswith(("$(", "`", "<(")):
                    yield from find_calls_in_word(word, depth)


def find_calls_in_word(word: str, depth: int) -> Iterator[ProgramCall]:
    """The programs of a script in one word; none where it is no script."""
    try:
        yield from [*find_program_calls(word, depth + 1)]
    except UnreadableShell:
        return


def skip_assignments(call: SimpleCommand) -> tuple[str, ...]:
    """The words from the program on."""
    words = tuple(word.text for word in call.words)
    at = next((i for i, word in enumerate(words) if not re.match(ASSIGNMENT, word)), len(words))
    return words[at:]


def danger_of_call(call: ProgramCall, written_whole: Sequence[str] | None) -> Danger | None:
    """The danger of one program."""
    if call.words in (("--help",), ("--version",)):
        return None
    if call.name.startswith("mkfs"):
        return Danger(f"`{call.text}` works on disks")
    rule = next((rule for rule in DANGER_RULES if call.name in rule.programs and matches_rule(rule, call)), None)
    if rule is not None:
        return Danger(f"`{call.text}` {rule.reason}", rule.is_irreversible)
    return (
        find_control_change(call)
        or find_remote_code(call)
        or find_sent_secret(call)
        or find_deletion(call)
        or (find_destruction(call) if written_whole is None else None)
    )


# The rows


def matches_rule(rule: DangerRule, call: ProgramCall) -> bool:
    """Whether a row holds of a command."""
    options, others = split_options(call)
    if len(others) < len(rule.verbs) or not all(word in verb for word, verb in zip(others, rule.verbs, strict=False)):
        return False
    if any(has_option(option, options) or option in others[:1] for option in rule.unless):
        return False
    if rule.options and not any(has_option(option, options) for option in rule.options):
        return False
    rest = (*others[len(rule.verbs) :], *options)
    return not rule.words or any(re.fullmatch(rule.words, word) for word in rest)


def split_options(call: ProgramCall) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options, and the other words; values of options are neither where the table knows them."""
    valued = VALUED_LETTERS.get(call.name, "")
    options: list[str] = []
    others: list[str] = []
    words = list(call.words)
    while words:
        word = words.pop(0)
        if word == "--":
            return tuple(options), (*others, *words)
        if not word.startswith("-") or word == "-":
            others.append(word)
            continue
        at = next((i for i, letter in enumerate(word) if letter in valued), None) if word[1:2] != "-" else None
        options.append(word if at is None else word[: at + 1])
        if (at is not None and at == len(word) - 1) or word in ("--message", "--git-dir", "--work-tree", "--author"):
            words = words[1:]
    return tuple(options), tuple(others)


def has_option(option: str, options: Sequence[str]) -> bool:
    """Whether an option is given: in a bundle, with a value, or shortened."""
    if not option.startswith("--"):
        letter = option[1:]
        return any(word == option or (word[1:2] != "-" and len(letter) == 1 and letter in word[1:]) for word in options)
    return any(len(name := word.partition("=")[0]) > 4 and option.startswith(name) for word in options)


# Places


def find_deletion(call: ProgramCall) -> Danger | None:
    """`find` that deletes below such a place, or all that is here."""
    if call.name != "find" or ("-delete" not in call.words and not DESTROYERS & set(call.words)):
        return None
    at = next((i for i, word in enumerate(call.words) if word[:1] in ("-", "(", "!")), len(call.words))
    here = not call.folder_changed and not any(word in NARROWING_TESTS for word in call.words)
    bad = next((word for word in call.words[:at] or (".",) if is_precious(word, here=here)), None)
    return Danger(f"`{call.text}` deletes below {bad!r}") if bad else None


def find_destruction(call: ProgramCall) -> Danger | None:
    """Programs that leave nothing of a place that is everybody's, or of all that is here."""
    if call.name not in DESTROYERS:
        return None
    options, others = split_options(call)
    deep = call.name in ("mv", "shred", "srm") or any(
        has_option(option, options) for option in ("-r", "-R", "--recursive")
    )
    bad = next((word for word in others if deep and is_precious(word, here=not call.folder_changed)), None)
    return Danger(f"`{call.text}` leaves nothing of {bad!r}") if bad else None


def is_precious(place: str, *, here: bool = True) -> bool:
    """Whether a place is one whose loss nobody wants."""
    tidy = re.sub(r"^(?:\./+)+", "", place).rstrip("/") or ("." if place.startswith(".") else "/")
    return re.fullmatch(PRECIOUS_PLACES, tidy) is not None or (here and re.fullmatch(WHOLE_FOLDER, tidy) is not None)


def find_whole_write(written_whole: Sequence[str] | None) -> Danger | None:
    """Of what is known to be written whole."""
    for path in written_whole or ():
        tidy = posixpath.normpath(path)
        if is_precious(tidy):
            return Danger(f"{path!r} is written whole")
    return None


# What governs agents


def find_control_change(call: ProgramCall) -> Danger | None:
    """Remit's own commands for people, and programs that change what governs agents."""
    known = call.words[:1] in REMIT_COMMANDS or call.words[:2] in REMIT_COMMANDS
    if call.name == "remit" and call.words and not known:
        return Danger(f"`{call.text}` is for a person", is_irreversible=False, is_forbidden=True)
    for before, value in pairwise(call.words):
        if call.name == "git" and before == "-c" and re.match(r"(?i)core\.hookspath=", value):
            return Danger(f"`{call.text}` {EVADES_CONTROL}", is_irreversible=False)
    named = next((word for word in call.words if re.search(CONTROL_FILES, word)), None)
    if named is None:
        return None
    if call.name in EDITORS or (call.name in INTERPRETERS and re.search(CHANGING_CODE, named)):
        return Danger(f"`{call.text}` changes what governs agents", is_irreversible=False, is_forbidden=True)
    return None


# The network


def find_remote_code(call: ProgramCall) -> Danger | None:
    """Code from the network, run at once."""
    runs = call.name in INTERPRETERS or call.name in ("eval", "source", ".", "exec")
    if runs and any(re.search(FETCH_SUBSTITUTION, word) for word in call.words):
        return Danger(f"`{call.text}` runs what comes from the network")
    return None


def find_pipe_danger(commands: Sequence[ProgramCall]) -> Danger | None:
    """What is fetched and goes into an interpreter; what holds secrets and goes to another machine."""
    line: list[ProgramCall] = []
    for one in commands:
        if one.operator not in ("|", "|&"):
            line = []
        fetched = next((c for c in line if c.name in FETCHERS), None)
        if fetched is not None and reads_script_from_stdin(one):
            return Danger(f"`{fetched.text} | {one.text}` runs what comes from the network")
        if one.name in SENDERS and any(holds_secrets(c) for c in line):
            return Danger(f"`{one.text}` sends secrets to another machine")
        line.append(one)
    return None


def reads_script_from_stdin(call: ProgramCall) -> bool:
    """Whether an interpreter runs its standard input."""
    if call.name in WRAPPER_PROGRAMS and call.name not in INTERPRETERS:
        return any(word.rpartition("/")[2] in SHELLS for word in call.words)
    if call.name not in INTERPRETERS:
        return False
    operands = [word for word in call.words if not word.startswith("-")]
    own = call.name not in SHELLS and any(word in ("-c", "-e", "-m", "-r", "-E") for word in call.words)
    return not own and (not operands or "-s" in call.words or "-" in call.words)


def holds_secrets(call: ProgramCall) -> bool:
    """Whether the output of a program holds what is secret."""
    return (call.name in ENVIRONMENT_PRINTERS and not call.words) or any(names_secret(word) for word in call.words)


def names_secret(word: str) -> bool:
    """Whether a word names a file that holds secrets, by itself or within `NAME=@FILE`."""
    for part in re.split(r"[@=:,;\s\"'()<>|`]+", word):
        tidy = part.rstrip("/")
        if tidy and (is_secret_file(tidy) or is_secret_file(f"{tidy}/x") or re.search(PRIVATE_PLACES, tidy)):
            return True
    return False


PRIVATE_PLACES = r"(?:^|/)(?:secrets?|private|credentials?)/[^/]+$|^/etc/(?:shadow|sudoers)|(?:^|/)\.ssh$"


def find_sent_secret(call: ProgramCall) -> Danger | None:
    """Secrets that a program sends, named in its own words."""
    if call.name not in SENDERS:
        return None
    for word in call.words:
        asked = re.findall(SUBSTITUTION, word)
        if any(names_secret(text) or text.split()[:1] in (["env"], ["printenv"]) for text in asked):
            return Danger(f"`{call.text}` sends secrets to another machine")
    plain = [word for word in call.words if sends_file(call.name, word)]
    if any(names_secret(word) for word in plain):
        return Danger(f"`{call.text}` sends secrets to another machine")
    return None


def sends_file(program: str, word: str) -> bool:
    """Whether a word may name a file that is sent. An address and a private key to log in with are none."""
    if program in ("ssh", "sftp", "openssl", "ping", "host", "dig", "nslookup"):
        return False
    return "://" not in word
