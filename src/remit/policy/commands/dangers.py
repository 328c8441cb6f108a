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
from remit.core.secret_files import names_a_secret
from remit.core.shell import SimpleCommand, UnreadableShell, simple_commands
from remit.policy.commands.danger_table import (
    CHANGES,
    CONTROL_FILES,
    CONTROLS,
    DESTROYERS,
    EDITORS,
    ENVIRONMENT,
    FETCHERS,
    HERE,
    INTERPRETERS,
    PLACES,
    PROGRAMS,
    RULES,
    SENDERS,
    SHELLS,
    VALUED,
    WRAPPERS,
    Rule,
)

LONGEST = 16 * 1024
"""Characters that are looked at. The patterns are compiled when they are needed, not at the start."""

DEEPEST = 3
"""Shells within shells."""

MOST_STARTS = 12
"""Words after a wrapper at which the command that it runs may begin."""

ASSIGNMENT = r"(?a)\w+\+?="
FETCH_INSIDE = r"(?:\$\(|`|<\()\s*(?:sudo\s+)?(?:curl|wget|fetch|http|xh|aria2c)\b"
SIGNS = (
    (r">\|?\s*/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mem|kmem|port|mapper)", "works on disks"),
    (r"/dev/(?:tcp|udp)/", "opens a connection of its own"),
    (r"(\S{1,40})\s*\(\)\s*\{\s*\1\s*\|\s*\1\s*&\s*\}", "starts itself without end"),
)
"""What says enough in any text."""

READ_INSIDE = r"(?:\$\(|`|<\()([^()`]*)"


NARROWING = frozenset({"-name", "-iname", "-path", "-regex", "-empty", "-newer", "-mtime", "-maxdepth"})
"""Tests of find that leave more than they take."""


class Danger(Struct, frozen=True):
    """What is dangerous, and by which words. `lasting`: nothing brings it back. `barred`: it is no agent's to do."""

    reason: str
    lasting: bool = True
    barred: bool = False


def danger_in(text: str, whole: Sequence[str] | None = None) -> Danger | None:
    """The worst danger of a command. `whole` are the places of which it writes everything, where that is known."""
    if len(text) > LONGEST:
        return None
    for found, why in SIGNS:
        if hit := re.search(found, text):
            return Danger(f"{hit[0][:60]!r}: {why}")
    try:
        commands = [*called(text)]
    except UnreadableShell:
        return None
    found = [*filter(None, (piped(commands), *(danger_of(one, whole) for one in commands)))]
    if not found or any(one.name in DESTROYERS for one in commands):
        found += filter(None, [emptied(whole)])
    return max(found, key=lambda danger: (danger.barred, danger.lasting), default=None)


def unseen(text: str, programs: Sequence[str]) -> str | None:
    """A program with rows of its own that the text runs, and that is not seen here; None where there is none."""
    try:
        seen = {one.name for one in called(text)}
    except UnreadableShell:
        seen = set[str]()
    return next((name for name in programs if name in PROGRAMS and name not in seen), None)


class Called(Struct, frozen=True):
    """One program with its words, and the operator before it. `there`: the shell changed its folder before it."""

    name: str
    words: tuple[str, ...]
    before: str = ""
    there: bool = False

    @property
    def said(self) -> str:
        """The command for people, cut."""
        return " ".join((self.name, *self.words))[:80]


def called(text: str, depth: int = 0) -> Iterator[Called]:
    """The programs that a text runs, what wrappers and literal scripts run included. Raises UnreadableShell."""
    there = False
    for one in simple_commands(text):
        words = bare(one)
        if not words:
            continue
        there |= words[0] in ("cd", "pushd")
        first = Called(words[0].rpartition("/")[2], words[1:], one.before, there)
        yield first
        if first.name not in WRAPPERS and first.name != "git":
            continue
        for at in range(1, min(len(words), MOST_STARTS) if first.name in WRAPPERS else 0):
            name = words[at].rpartition("/")[2]
            if name in PROGRAMS or name in DESTROYERS or name in SENDERS or name in INTERPRETERS or name == "remit":
                yield Called(name, words[at + 1 :], one.before, there)
        if depth < DEEPEST:
            for word in words[1:]:
                if first.name in WRAPPERS and re.search(r"\s", word) and not word.startswith(("$(", "`", "<(")):
                    yield from inside(word, depth)


def inside(word: str, depth: int) -> Iterator[Called]:
    """The programs of a script in one word; none where it is no script."""
    try:
        yield from [*called(word, depth + 1)]
    except UnreadableShell:
        return


def bare(one: SimpleCommand) -> tuple[str, ...]:
    """The words from the program on."""
    words = tuple(word.text for word in one.words)
    at = next((i for i, word in enumerate(words) if not re.match(ASSIGNMENT, word)), len(words))
    return words[at:]


def danger_of(one: Called, whole: Sequence[str] | None) -> Danger | None:
    """The danger of one program."""
    if one.words in (("--help",), ("--version",)):
        return None
    if one.name.startswith("mkfs"):
        return Danger(f"`{one.said}` works on disks")
    rule = next((rule for rule in RULES if one.name in rule.programs and fits(rule, one)), None)
    if rule is not None:
        return Danger(f"`{one.said}` {rule.why}", rule.lasting)
    return governed(one) or remote(one) or sent(one) or swept(one) or (wrecked(one) if whole is None else None)


# The rows


def fits(rule: Rule, one: Called) -> bool:
    """Whether a row holds of a command."""
    options, others = sorted_words(one)
    if len(others) < len(rule.verbs) or not all(word in verb for word, verb in zip(others, rule.verbs, strict=False)):
        return False
    if any(given(option, options) or option in others[:1] for option in rule.unless):
        return False
    if rule.options and not any(given(option, options) for option in rule.options):
        return False
    rest = (*others[len(rule.verbs) :], *options)
    return not rule.words or any(re.fullmatch(rule.words, word) for word in rest)


def sorted_words(one: Called) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The options, and the other words; values of options are neither where the table knows them."""
    valued = VALUED.get(one.name, "")
    options: list[str] = []
    others: list[str] = []
    words = list(one.words)
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


def given(option: str, options: Sequence[str]) -> bool:
    """Whether an option is given: in a bundle, with a value, or shortened."""
    if not option.startswith("--"):
        letter = option[1:]
        return any(word == option or (word[1:2] != "-" and len(letter) == 1 and letter in word[1:]) for word in options)
    return any(len(name := word.partition("=")[0]) > 4 and option.startswith(name) for word in options)


# Places


def swept(one: Called) -> Danger | None:
    """`find` that deletes below such a place, or all that is here."""
    if one.name != "find" or ("-delete" not in one.words and not DESTROYERS & set(one.words)):
        return None
    at = next((i for i, word in enumerate(one.words) if word[:1] in ("-", "(", "!")), len(one.words))
    here = not one.there and not any(word in NARROWING for word in one.words)
    bad = next((word for word in one.words[:at] or (".",) if broad(word, here=here)), None)
    return Danger(f"`{one.said}` deletes below {bad!r}") if bad else None


def wrecked(one: Called) -> Danger | None:
    """Programs that leave nothing of a place that is everybody's, or of all that is here."""
    if one.name not in DESTROYERS:
        return None
    options, others = sorted_words(one)
    deep = one.name in ("mv", "shred", "srm") or any(given(option, options) for option in ("-r", "-R", "--recursive"))
    bad = next((word for word in others if deep and broad(word, here=not one.there)), None)
    return Danger(f"`{one.said}` leaves nothing of {bad!r}") if bad else None


def broad(place: str, *, here: bool = True) -> bool:
    """Whether a place is one whose loss nobody wants."""
    tidy = re.sub(r"^(?:\./+)+", "", place).rstrip("/") or ("." if place.startswith(".") else "/")
    return re.fullmatch(PLACES, tidy) is not None or (here and re.fullmatch(HERE, tidy) is not None)


def emptied(whole: Sequence[str] | None) -> Danger | None:
    """Of what is known to be written whole."""
    for path in whole or ():
        tidy = posixpath.normpath(path)
        if broad(tidy):
            return Danger(f"{path!r} is written whole")
    return None


# What governs agents


def governed(one: Called) -> Danger | None:
    """Remit's own commands for people, and programs that change what governs agents."""
    known = one.words[:1] in REMIT_COMMANDS or one.words[:2] in REMIT_COMMANDS
    if one.name == "remit" and one.words and not known:
        return Danger(f"`{one.said}` is for a person", lasting=False, barred=True)
    for before, value in pairwise(one.words):
        if one.name == "git" and before == "-c" and re.match(r"(?i)core\.hookspath=", value):
            return Danger(f"`{one.said}` {CONTROLS}", lasting=False)
    named = next((word for word in one.words if re.search(CONTROL_FILES, word)), None)
    if named is None:
        return None
    if one.name in EDITORS or (one.name in INTERPRETERS and re.search(CHANGES, named)):
        return Danger(f"`{one.said}` changes what governs agents", lasting=False, barred=True)
    return None


# The network


def remote(one: Called) -> Danger | None:
    """Code from the network, run at once."""
    runs = one.name in INTERPRETERS or one.name in ("eval", "source", ".", "exec")
    if runs and any(re.search(FETCH_INSIDE, word) for word in one.words):
        return Danger(f"`{one.said}` runs what comes from the network")
    return None


def piped(commands: Sequence[Called]) -> Danger | None:
    """What is fetched and goes into an interpreter; what holds secrets and goes to another machine."""
    line: list[Called] = []
    for one in commands:
        if one.before not in ("|", "|&"):
            line = []
        fetched = next((c for c in line if c.name in FETCHERS), None)
        if fetched is not None and reads_a_script(one):
            return Danger(f"`{fetched.said} | {one.said}` runs what comes from the network")
        if one.name in SENDERS and any(holds_secrets(c) for c in line):
            return Danger(f"`{one.said}` sends secrets to another machine")
        line.append(one)
    return None


def reads_a_script(one: Called) -> bool:
    """Whether an interpreter runs its standard input."""
    if one.name in WRAPPERS and one.name not in INTERPRETERS:
        return any(word.rpartition("/")[2] in SHELLS for word in one.words)
    if one.name not in INTERPRETERS:
        return False
    operands = [word for word in one.words if not word.startswith("-")]
    own = one.name not in SHELLS and any(word in ("-c", "-e", "-m", "-r", "-E") for word in one.words)
    return not own and (not operands or "-s" in one.words or "-" in one.words)


def holds_secrets(one: Called) -> bool:
    """Whether the output of a program holds what is secret."""
    return (one.name in ENVIRONMENT and not one.words) or any(secret(word) for word in one.words)


def secret(word: str) -> bool:
    """Whether a word names a file that holds secrets, by itself or within `NAME=@FILE`."""
    for part in re.split(r"[@=:,;\s\"'()<>|`]+", word):
        tidy = part.rstrip("/")
        if tidy and (names_a_secret(tidy) or names_a_secret(f"{tidy}/x") or re.search(PRIVATE_PLACES, tidy)):
            return True
    return False


PRIVATE_PLACES = r"(?:^|/)(?:secrets?|private|credentials?)/[^/]+$|^/etc/(?:shadow|sudoers)|(?:^|/)\.ssh$"


def sent(one: Called) -> Danger | None:
    """Secrets that a program sends, named in its own words."""
    if one.name not in SENDERS:
        return None
    for word in one.words:
        asked = re.findall(READ_INSIDE, word)
        if any(secret(text) or text.split()[:1] in (["env"], ["printenv"]) for text in asked):
            return Danger(f"`{one.said}` sends secrets to another machine")
    plain = [word for word in one.words if sends_file(one.name, word)]
    if any(secret(word) for word in plain):
        return Danger(f"`{one.said}` sends secrets to another machine")
    return None


def sends_file(program: str, word: str) -> bool:
    """Whether a word may name a file that is sent. An address and a private key to log in with are none."""
    if program in ("ssh", "sftp", "openssl", "ping", "host", "dig", "nslookup"):
        return False
    return "://" not in word
