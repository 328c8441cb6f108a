"""The programs run by a command, the dangers of their use beyond any scope, and the commits sent by git.

The search reads only shell words, hence unproved texts as well: it may find programs behind dead branches, and misses
only commands made up at run time. Source for git: git-push(1), git-worktree(1) of git 2.51, read 2026-11.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from remit.core.agents import ROWS
from remit.core.call import ACTING_COMMANDS, REMIT_COMMANDS
from remit.core.redaction import is_secret_file
from remit.core.shell_commands import UnreadableShell, parse_simple_commands
from remit.policy.commands.parsed_command import parse_command
from remit.policy.commands.programs.row import DISCARDS_WORK, EVADES_CONTROL, DangerRule
from remit.policy.commands.programs.table import find_program, has_role
from remit.policy.commands.words import word_set

MAX_SHELL_DEPTH = 3  # Shells within shells
MAX_WRAPPED_STARTS = 12  # Words after a wrapper at which the command that it runs may begin
MAX_CHARS = 16 * 1024  # Characters of a searched text. The patterns are compiled at their first use, not at the start

ASSIGNMENT = r"(?a)\w+\+?="


class ProgramCall(Struct, frozen=True):
    """A program with its words, and the operator before the program. `folder_changed`: the shell changed the folder
    before.
    """

    name: str
    words: tuple[str, ...]
    operator: str = ""
    folder_changed: bool = False

    @property
    def text(self) -> str:
        return " ".join((self.name, *self.words))[:80]


def find_program_calls(text: str, depth: int = 0) -> Iterator[ProgramCall]:
    """Yield the programs of a text, including programs behind wrappers and in scripts. Raises UnreadableShell."""
    folder_changed = False
    for command in parse_command(text).commands:
        words = tuple(word.text for word in command.words)
        while words and re.match(ASSIGNMENT, words[0]):
            words = words[1:]
        if not words:
            continue
        folder_changed |= words[0] in ("cd", "pushd")
        first = ProgramCall(words[0].rpartition("/")[2], words[1:], command.before, folder_changed)
        yield first
        if not has_role(first.name, "runner", "wrapper"):
            continue
        # The inner command may begin at any word: the options of wrappers are not known here.
        for at in range(1, min(len(words), MAX_WRAPPED_STARTS)):
            name = words[at].rpartition("/")[2]
            searched = has_role(name, "destroyer", "sender", "shell", "interpreter") or name == "remit"
            if searched or find_program(name).danger:
                yield ProgramCall(name, words[at + 1 :], command.before, folder_changed)
        for word in words[1:] if depth < MAX_SHELL_DEPTH else ():
            if re.search(r"\s", word) and not word.startswith(("$(", "`", "<(")):
                yield from find_readable_calls(word, depth + 1)


def find_readable_calls(text: str, depth: int = 0) -> list[ProgramCall]:
    try:
        return [*find_program_calls(text, depth)]
    except UnreadableShell:
        return []


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
    is_restorable: bool = False
    """A snapshot of the working tree brings all of the loss back."""


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
        lost = next((path for path in written_whole or () if is_precious(posixpath.normpath(path))), None)
        found += [] if lost is None else [Danger(f"{lost!r} is written whole")]
    return max(found, key=rank_danger, default=None)


def rank_danger(danger: Danger) -> tuple[bool, bool, bool]:
    return danger.is_forbidden, danger.is_irreversible, not danger.is_restorable


def find_dangerous_words(text: str) -> tuple[str, ...]:
    """Return the dangerous words of a command, for a person to see at once: options like `--force`, otherwise the
    program. Empty if no single call is dangerous, or the text cannot be read.
    """
    found: list[str] = []
    for call in find_readable_calls(text) if len(text) <= MAX_CHARS else ():
        if danger_of_call(call, None) is None:
            continue
        rule = next((rule for rule in find_program(call.name).danger if matches_rule(rule, call)), None)
        options = rule.options.split() if rule is not None else []
        words = [word for word in call.words if any(has_option(option, (word,)) for option in options)]
        found += words or [call.name]
    return tuple(dict.fromkeys(found))


def find_unseen_program(text: str, programs: Sequence[str]) -> str | None:
    """Return a program with danger rules that the text runs and the search for dangers does not see."""
    seen = {call.name for call in find_readable_calls(text)}
    return next((name for name in programs if find_program(name).danger and name not in seen), None)


def danger_of_call(call: ProgramCall, written_whole: Sequence[str] | None) -> Danger | None:
    if call.words in (("--help",), ("--version",)):
        return None
    if call.name.startswith("mkfs"):
        return Danger(f"`{call.text}` works on disks")
    rule = next((rule for rule in find_program(call.name).danger if matches_rule(rule, call)), None)
    if rule is not None:
        is_restorable = rule.reason == DISCARDS_WORK and not rule.is_irreversible
        return Danger(f"`{call.text}` {rule.reason}", rule.is_irreversible, is_restorable=is_restorable)
    runs_code = is_interpreter(call.name) or call.name in ("eval", "source", ".", "exec")
    found = find_control_change(call)
    if not found and runs_code and any(re.search(FETCH_SUBSTITUTION, word) for word in call.words):
        found = Danger(f"`{call.text}` runs what comes from the network")
    if not found and has_role(call.name, "sender") and sends_secret(call):
        found = Danger(f"`{call.text}` sends secrets to another machine")
    # Where all written places are known, those written whole decide about destruction.
    return found or find_deletion(call) or (find_destruction(call) if written_whole is None else None)


VALUED_LETTERS = {"git": "mFCcSt"}
"""Short options that take the rest of their bundle, or the next word, as a value, which is no option."""


def matches_rule(rule: DangerRule, call: ProgramCall) -> bool:
    options, others = split_options(call)
    verbs = [verb.split("|") for verb in rule.verbs.split()]
    if len(others) < len(verbs) or not all(word in verb for word, verb in zip(others, verbs, strict=False)):
        return False
    if any(has_option(option, options) or option in others[:1] for option in rule.unless.split()):
        return False
    if rule.options and not any(has_option(option, options) for option in rule.options.split()):
        return False
    if rule.except_for is not None and rule.except_for(call.words[call.words.index(others[len(verbs) - 1]) + 1 :]):
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


PRECIOUS_PLACES = (
    r"/|/\*|(?:~|\$HOME|\$\{HOME\})(?:/|/\*|/\.\*|/\.(?:ssh|config|local|gnupg|aws)(?:/.*)?)?"
    rf"|(?:~|\$HOME|\$\{{HOME\}})/(?:{'|'.join(re.escape(row.config_folder) for row in ROWS.values())})(?:/.*)?"
    r"|/(?:bin|boot|dev|etc|home|lib|lib64|opt|proc|root|run|sbin|srv|sys|usr|var|Users|System|Library|Applications)(?:/\*?|/[^/]*/?)?"
    r"|(?:.*/)?\.git(?:/|/\*|/(?:objects|refs|hooks|logs|config|HEAD|index|remit)(?:/.*)?)?"
)
"""Places whose loss nobody wants, from whatever folder they are named."""

WHOLE_FOLDER = r"\.|\*|\.\*|\.\.(?:/.*)?|\.\[!\.\]\*|\{\*,\.\*\}|\$PWD(?:/\*?)?|\$\(pwd\)(?:/\*?)?|\$\{PWD\}(?:/\*?)?"
"""Everything in the present folder, or a folder above."""

NARROWING_TESTS = frozenset({"-name", "-iname", "-path", "-regex", "-empty", "-newer", "-mtime", "-maxdepth"})
"""Tests of find that leave most files alone."""


def find_deletion(call: ProgramCall) -> Danger | None:
    destroys = "-delete" in call.words or any(has_role(word, "destroyer") for word in call.words)
    if call.name != "find" or not destroys:
        return None
    at = next((i for i, word in enumerate(call.words) if word[:1] in ("-", "(", "!")), len(call.words))
    here = not call.folder_changed and not any(word in NARROWING_TESTS for word in call.words)
    place = next((word for word in call.words[:at] or (".",) if is_precious(word, here=here)), None)
    return Danger(f"`{call.text}` deletes below {place!r}") if place else None


def find_destruction(call: ProgramCall) -> Danger | None:
    if not has_role(call.name, "destroyer"):
        return None
    options, others = split_options(call)
    recursive = call.name in ("mv", "shred", "srm") or any(
        has_option(option, options) for option in ("-r", "-R", "--recursive")
    )
    place = next((word for word in others if recursive and is_precious(word, here=not call.folder_changed)), None)
    return Danger(f"`{call.text}` leaves nothing of {place!r}") if place else None


def is_precious(place: str, *, here: bool = True) -> bool:
    path = re.sub(r"^(?:\./+)+", "", place).rstrip("/") or ("." if place.startswith(".") else "/")
    return re.fullmatch(PRECIOUS_PLACES, path) is not None or (here and re.fullmatch(WHOLE_FOLDER, path) is not None)


CONTROL_FILES = (
    r"\.orchestration/|\.intentignore|\.git/(?:hooks|config|remit)|\.cursor/hooks|"
    r"\.local/(?:state|share)/remit|"
    + "|".join(re.escape(posixpath.splitext(path)[0]) for row in ROWS.values() for path in row.settings_files)
)
CHANGING_CODE = (
    r"['\"][wax]b?\+?['\"]|write|unlink|remove|rename|rmtree|truncate|replace|\bdump\(|\bcopy|\bmove|chmod|['\"]>"
)
"""Code that changes a file."""


ALONE = "run it by itself, then the rest"


def find_mixed_act(command: str) -> str:
    """Return the first command of Remit's that acts for the session, in the text of several commands; else empty."""
    if "remit" not in command:
        return ""
    try:
        found = [[word.text for word in one.words] for one in parse_simple_commands(command)]
    except UnreadableShell:
        return ""
    acts = (words for words in found if words and words[0].rpartition("/")[2] == "remit")
    return next((" ".join(w) for w in acts if not ACTING_COMMANDS.isdisjoint((tuple(w[1:2]), tuple(w[1:3])))), "")


def is_for_agents(words: tuple[str, ...]) -> bool:
    return words[:1] in REMIT_COMMANDS or words[:2] in REMIT_COMMANDS


def find_control_change(call: ProgramCall) -> Danger | None:
    if call.name == "remit" and call.words and not is_for_agents(call.words):
        return Danger(f"`{call.text}` is for a person", is_irreversible=False, is_forbidden=True)
    for option, value in pairwise(call.words):
        setting = re.match(r"(?i)(?:core\.hookspath|alias\.([^=]+))=(!?)", value) if call.name == "git" else None
        # An alias is a danger where it runs a shell, or where the same command uses it.
        if option == "-c" and setting is not None and (setting[2] or setting[1] in (None, *call.words)):
            return Danger(f"`{call.text}` {EVADES_CONTROL}", is_irreversible=False)
    named = next((word for word in call.words if re.search(CONTROL_FILES, word)), None)
    if named is None:
        return None
    if has_role(call.name, "editor") or (is_interpreter(call.name) and re.search(CHANGING_CODE, named)):
        return Danger(f"`{call.text}` changes what governs agents", is_irreversible=False, is_forbidden=True)
    return None


FETCH_SUBSTITUTION = r"(?:\$\(|`|<\()\s*(?:sudo\s+)?(?:curl|wget|fetch|http|xh|aria2c)\b"
SUBSTITUTION = r"(?:\$\(|`|<\()([^()`]*)"
PRIVATE_PLACES = r"(?:^|/)(?:secrets?|private|credentials?)/[^/]+$|^/etc/(?:shadow|sudoers)|(?:^|/)\.ssh$"
SENDERS_WITHOUT_FILES = word_set("ssh sftp openssl ping host dig nslookup")


def find_pipe_danger(calls: Sequence[ProgramCall]) -> Danger | None:
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
    for part in re.split(r"[@=:,;\s\"'()<>|`]+", word):
        path = part.rstrip("/")
        if path and (is_secret_file(path) or is_secret_file(f"{path}/x") or re.search(PRIVATE_PLACES, path)):
            return True
    return False


def sends_secret(call: ProgramCall) -> bool:
    inner = [text for word in call.words for text in re.findall(SUBSTITUTION, word)]
    if any(names_secret(text) or text.split()[:1] in (["env"], ["printenv"]) for text in inner):
        return True
    files = () if call.name in SENDERS_WITHOUT_FILES else (word for word in call.words if "://" not in word)
    return any(map(names_secret, files))


# Commits that leave this machine, or get a working tree of their own, before they were judged

VALUED_OPTIONS = {
    "git": ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"),
    "push": ("-o", "--push-option", "--repo", "--receive-pack", "--exec"),
    "add": ("-b", "-B", "--reason"),
}
UNBRANCHED_NAME = re.compile(r"(?i).*[$`].*|[0-9a-f]{7,64}|refs/(?!heads/|tags/).+|stash(@.*)?|\w*_HEAD|:.*", re.DOTALL)
"""Names that no branch or tag has: a commit's own name, or a name that any command may give."""

CURRENT_BRANCH = re.compile(r"\$\(git (branch --show-current|rev-parse --abbrev-ref HEAD)\)")
"""Substitutions by which scripts name the current branch."""

MAX_CACHED = 32


@lru_cache(MAX_CACHED)
def find_sent_commits(command: str) -> tuple[str, ...]:
    """Return the names of commits sent by `git push`, and checked out by `git worktree add`."""
    names: list[str] = []
    for words in find_git_commands(command):
        match words:
            case ["push", *rest]:
                for word in select_operands(rest, VALUED_OPTIONS["push"])[1:]:
                    spec = word.removeprefix("+")
                    # The last colon counts: `:/words` names a commit, too.
                    source = spec.rpartition(":")[0] if ":" in spec else spec
                    names += [CURRENT_BRANCH.sub("HEAD", source)] if source not in ("", "tag") else []
            case ["worktree", "add", *rest]:
                names += select_operands(rest, VALUED_OPTIONS["add"])[1:2]
            case _:
                pass
    return tuple(dict.fromkeys(names))


@lru_cache(MAX_CACHED)
def is_fetching(command: str) -> bool:
    return any(words[:1] in (["fetch"], ["pull"]) for words in find_git_commands(command))


def find_git_commands(command: str) -> list[list[str]]:
    if len(command) > MAX_CHARS or "git" not in command:
        return []
    calls = [call for call in find_readable_calls(command) if call.name == "git"]
    return [select_operands(call.words, VALUED_OPTIONS["git"], first=True) for call in calls]


def select_operands(words: Sequence[str], valued: Sequence[str], *, first: bool = False) -> list[str]:
    found: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "--":
            return [*found, *left]
        if word.startswith("-") and word != "-":
            left = left[1:] if word in valued else left
        elif first:
            return [word, *left]
        else:
            found.append(word)
    return found


def is_unbranched_name(name: str) -> bool:
    return UNBRANCHED_NAME.fullmatch(name) is not None
