"""The dangers of a command: uses of programs that no scope covers, found in the command's words."""

import posixpath
import re
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from remit.core.call import REMIT_COMMANDS
from remit.core.secrets.secret_files import is_secret_file
from remit.core.shell.simple_commands import UnreadableShell
from remit.policy.commands.parse.options import word_set
from remit.policy.commands.program_calls import ProgramCall, find_program_calls
from remit.policy.commands.programs.row import EVADES_CONTROL, DangerRule
from remit.policy.commands.programs.table import find_program, has_role

MAX_CHARS = 16 * 1024
"""Characters of a searched text. The patterns are compiled at their first use, not at the start."""

DANGER_SIGNS = (
    (r">\|?\s*/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mem|kmem|port|mapper)", "works on disks"),
    (r"/dev/(?:tcp|udp)/", "opens a connection of its own"),
    (r"(\S{1,40})\s*\(\)\s*\{\s*\1\s*\|\s*\1\s*&\s*\}", "starts itself without end"),
)
"""Patterns that are dangerous in any text."""


class Danger(Struct, frozen=True):
    """A danger and the words behind the finding. `is_irreversible`: neither git nor a snapshot restores the loss.

    `is_forbidden`: no agent may run the command, even with a person's approval.
    """

    reason: str
    is_irreversible: bool = True
    is_forbidden: bool = False


def find_danger(text: str, written_whole: Sequence[str] | None = None) -> Danger | None:
    """Return the worst danger of a command. `written_whole` are the entirely written places, if known."""
    if len(text) > MAX_CHARS:
        return None
    for pattern, reason in DANGER_SIGNS:
        if hit := re.search(pattern, text):
            return Danger(f"{hit[0][:60]!r}: {reason}")
    try:
        calls = [*find_program_calls(text)]
    except UnreadableShell:
        return None
    found = [*filter(None, (find_pipe_danger(calls), *(danger_of_call(call, written_whole) for call in calls)))]
    if not found or any(has_role(call.name, "destroyer") for call in calls):
        found += filter(None, [find_whole_write(written_whole)])
    return max(found, key=lambda danger: (danger.is_forbidden, danger.is_irreversible), default=None)


def find_unseen_program(text: str, programs: Sequence[str]) -> str | None:
    """Return a program with danger rules that the text runs and the search for dangers does not see."""
    try:
        seen = {call.name for call in find_program_calls(text)}
    except UnreadableShell:
        seen = set[str]()
    return next((name for name in programs if find_program(name).danger and name not in seen), None)


def danger_of_call(call: ProgramCall, written_whole: Sequence[str] | None) -> Danger | None:
    if call.words in (("--help",), ("--version",)):
        return None
    if call.name.startswith("mkfs"):
        return Danger(f"`{call.text}` works on disks")
    rule = next((rule for rule in find_program(call.name).danger if matches_rule(rule, call)), None)
    if rule is not None:
        return Danger(f"`{call.text}` {rule.reason}", rule.is_irreversible)
    found = find_control_change(call) or find_remote_code(call) or find_sent_secret(call) or find_deletion(call)
    # Where all written places are known, `find_whole_write` decides about them.
    return found or (find_destruction(call) if written_whole is None else None)


# Rules of the table

VALUED_LETTERS = {"git": "mFCcSt"}
"""Short options that take the rest of their bundle, or the next word, as a value, which is no option."""


def matches_rule(rule: DangerRule, call: ProgramCall) -> bool:
    """Return True if all conditions of the rule hold for the command."""
    options, others = split_options(call)
    verbs = [verb.split("|") for verb in rule.verbs.split()]
    if len(others) < len(verbs) or not all(word in verb for word, verb in zip(others, verbs, strict=False)):
        return False
    if any(has_option(option, options) or option in others[:1] for option in rule.unless.split()):
        return False
    if rule.options and not any(has_option(option, options) for option in rule.options.split()):
        return False
    rest = (*others[len(verbs) :], *options)
    return not rule.words or any(re.fullmatch(rule.words, word) for word in rest)


def split_options(call: ProgramCall) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options, and the other words. Known values of options are in neither."""
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
    if not option.startswith("--"):
        letter = option[1:]
        return any(word == option or (word[1:2] != "-" and len(letter) == 1 and letter in word[1:]) for word in options)
    return any(len(name := word.partition("=")[0]) > 4 and option.startswith(name) for word in options)


# Precious places

PRECIOUS_PLACES = (
    r"/|/\*|(?:~|\$HOME|\$\{HOME\})(?:/|/\*|/\.\*|/\.(?:ssh|config|local|gnupg|aws|claude|codex|gemini)(?:/.*)?)?"
    r"|/(?:bin|boot|dev|etc|home|lib|lib64|opt|proc|root|run|sbin|srv|sys|usr|var|Users|System|Library|Applications)(?:/\*?|/[^/]*/?)?"
    r"|(?:.*/)?\.git(?:/|/\*|/(?:objects|refs|hooks|logs|config|HEAD|index|remit)(?:/.*)?)?"
)
"""Places whose loss nobody wants, from whatever folder they are named."""

WHOLE_FOLDER = r"\.|\*|\.\*|\.\.(?:/.*)?|\.\[!\.\]\*|\{\*,\.\*\}|\$PWD(?:/\*?)?|\$\(pwd\)(?:/\*?)?|\$\{PWD\}(?:/\*?)?"
"""Everything in the present folder, or a folder above."""

NARROWING_TESTS = frozenset({"-name", "-iname", "-path", "-regex", "-empty", "-newer", "-mtime", "-maxdepth"})
"""Tests of find that leave most files alone."""


def find_deletion(call: ProgramCall) -> Danger | None:
    """Return the danger of a `find` that deletes below a precious place, or everything in the present folder."""
    destroys = "-delete" in call.words or any(has_role(word, "destroyer") for word in call.words)
    if call.name != "find" or not destroys:
        return None
    at = next((i for i, word in enumerate(call.words) if word[:1] in ("-", "(", "!")), len(call.words))
    here = not call.folder_changed and not any(word in NARROWING_TESTS for word in call.words)
    place = next((word for word in call.words[:at] or (".",) if is_precious(word, here=here)), None)
    return Danger(f"`{call.text}` deletes below {place!r}") if place else None


def find_destruction(call: ProgramCall) -> Danger | None:
    """Return the danger of a program that leaves nothing of a precious place, or of the present folder."""
    if not has_role(call.name, "destroyer"):
        return None
    options, others = split_options(call)
    recursive = call.name in ("mv", "shred", "srm") or any(
        has_option(option, options) for option in ("-r", "-R", "--recursive")
    )
    place = next((word for word in others if recursive and is_precious(word, here=not call.folder_changed)), None)
    return Danger(f"`{call.text}` leaves nothing of {place!r}") if place else None


def is_precious(place: str, *, here: bool = True) -> bool:
    """Return True if nobody wants to lose the place. `here`: the present folder counts as well."""
    path = re.sub(r"^(?:\./+)+", "", place).rstrip("/") or ("." if place.startswith(".") else "/")
    return re.fullmatch(PRECIOUS_PLACES, path) is not None or (here and re.fullmatch(WHOLE_FOLDER, path) is not None)


def find_whole_write(written_whole: Sequence[str] | None) -> Danger | None:
    for path in written_whole or ():
        if is_precious(posixpath.normpath(path)):
            return Danger(f"{path!r} is written whole")
    return None


# Files that govern agents

CONTROL_FILES = (
    r"\.orchestration/|\.intentignore|\.git/(?:hooks|config|remit)|\.claude/(?:settings|hooks)|\.codex/(?:config|hooks)|"
    r"\.gemini/settings|\.cursor/hooks|\.local/(?:state|share)/remit"
)
CHANGING_CODE = (
    r"['\"][wax]b?\+?['\"]|write|unlink|remove|rename|rmtree|truncate|replace|\bdump\(|\bcopy|\bmove|chmod|['\"]>"
)
"""Code that changes a file."""


def find_control_change(call: ProgramCall) -> Danger | None:
    """Return the danger of a Remit command for people, or of a program that changes what governs agents."""
    for_agents = call.words[:1] in REMIT_COMMANDS or call.words[:2] in REMIT_COMMANDS
    if call.name == "remit" and call.words and not for_agents:
        return Danger(f"`{call.text}` is for a person", is_irreversible=False, is_forbidden=True)
    for option, value in pairwise(call.words):
        if call.name == "git" and option == "-c" and re.match(r"(?i)core\.hookspath=", value):
            return Danger(f"`{call.text}` {EVADES_CONTROL}", is_irreversible=False)
    named = next((word for word in call.words if re.search(CONTROL_FILES, word)), None)
    if named is None:
        return None
    if has_role(call.name, "editor") or (is_interpreter(call.name) and re.search(CHANGING_CODE, named)):
        return Danger(f"`{call.text}` changes what governs agents", is_irreversible=False, is_forbidden=True)
    return None


# The network

FETCH_SUBSTITUTION = r"(?:\$\(|`|<\()\s*(?:sudo\s+)?(?:curl|wget|fetch|http|xh|aria2c)\b"
SUBSTITUTION = r"(?:\$\(|`|<\()([^()`]*)"
PRIVATE_PLACES = r"(?:^|/)(?:secrets?|private|credentials?)/[^/]+$|^/etc/(?:shadow|sudoers)|(?:^|/)\.ssh$"
SENDERS_WITHOUT_FILES = word_set("ssh sftp openssl ping host dig nslookup")


def find_remote_code(call: ProgramCall) -> Danger | None:
    """Return the danger of code that is fetched and run at once, in a substitution."""
    runs_code = is_interpreter(call.name) or call.name in ("eval", "source", ".", "exec")
    if runs_code and any(re.search(FETCH_SUBSTITUTION, word) for word in call.words):
        return Danger(f"`{call.text}` runs what comes from the network")
    return None


def find_pipe_danger(calls: Sequence[ProgramCall]) -> Danger | None:
    """Return the danger of a pipe that runs fetched code, or sends secrets to another machine."""
    pipeline: list[ProgramCall] = []
    for call in calls:
        if call.operator not in ("|", "|&"):
            pipeline = []
        fetch = next((earlier for earlier in pipeline if has_role(earlier.name, "fetcher")), None)
        if fetch is not None and reads_script_from_stdin(call):
            return Danger(f"`{fetch.text} | {call.text}` runs what comes from the network")
        if has_role(call.name, "sender") and any(holds_secrets(earlier) for earlier in pipeline):
            return Danger(f"`{call.text}` sends secrets to another machine")
        pipeline.append(call)
    return None


def is_interpreter(name: str) -> bool:
    return has_role(name, "shell", "interpreter")


def reads_script_from_stdin(call: ProgramCall) -> bool:
    """Return True if an interpreter, or a shell behind a wrapper, runs its standard input."""
    if not is_interpreter(call.name):
        wraps = has_role(call.name, "runner", "wrapper")
        return wraps and any(has_role(word.rpartition("/")[2], "shell") for word in call.words)
    operands = [word for word in call.words if not word.startswith("-")]
    has_script = not has_role(call.name, "shell") and any(word in ("-c", "-e", "-m", "-r", "-E") for word in call.words)
    return not has_script and (not operands or "-s" in call.words or "-" in call.words)


def holds_secrets(call: ProgramCall) -> bool:
    prints_environment = has_role(call.name, "environment") and not call.words
    return prints_environment or any(names_secret(word) for word in call.words)


def names_secret(word: str) -> bool:
    """Return True if a word names a file of secrets, alone or within `NAME=@FILE`."""
    for part in re.split(r"[@=:,;\s\"'()<>|`]+", word):
        path = part.rstrip("/")
        if path and (is_secret_file(path) or is_secret_file(f"{path}/x") or re.search(PRIVATE_PLACES, path)):
            return True
    return False


def find_sent_secret(call: ProgramCall) -> Danger | None:
    """Return the danger of a program sending secrets named in the command."""
    if not has_role(call.name, "sender"):
        return None
    danger = Danger(f"`{call.text}` sends secrets to another machine")
    for word in call.words:
        inner = re.findall(SUBSTITUTION, word)
        if any(names_secret(text) or text.split()[:1] in (["env"], ["printenv"]) for text in inner):
            return danger
    if call.name in SENDERS_WITHOUT_FILES:
        return None
    # Addresses are not files.
    return danger if any("://" not in word and names_secret(word) for word in call.words) else None
