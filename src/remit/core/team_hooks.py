"""Hooks: commands of a team's own that see each call, and the commands that a person has to trust before they run.

Commands that look at what agents write: which files they are for, and how they are told which those are.

A file's name never becomes part of a shell's text: it is an argument, whatever is in it.
"""

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, json

from remit.core.decision import Mode, Verdict
from remit.core.diff.contents import sha256
from remit.core.intent import Intent
from remit.core.scope.globs import Scope, glob_error, is_absolute_pattern

HookMoment: TypeAlias = Literal["before", "after"]
TrustKind: TypeAlias = Literal["hook", "verify", "generated"]

MAX_TIMEOUT_S = 60
"""The longest time limit of one hook: an agent runs its tool when its own patience ends."""


def as_tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """One value, or several, as a tuple; none for an empty text."""
    return value if isinstance(value, tuple) else (value,) if value else ()


class HookCondition(Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls a hook sees: all, where nothing is said. One value or a list of them for each key.

    `tools` are shell patterns for the tool's name as the agent spells it; `paths` are patterns as in `owned_scope`.
    """

    mode: Mode | tuple[Mode, ...] = ()
    agent: str | tuple[str, ...] = ()
    tools: str | tuple[str, ...] = ()
    paths: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in as_tuple(self.paths):
            absolute = is_absolute_pattern(pattern)
            if why := "it is absolute; patterns start at the workspace root" if absolute else glob_error(pattern):
                raise ValueError(f"when.paths: {pattern!r} cannot be used: {why}")

    def covers(self, mode: Mode, agent: str, tool: str, paths: tuple[str, ...]) -> bool:
        """Whether the hook is for a call like this. One that is bound to paths sees no call without any."""
        wanted = as_tuple(self.paths)
        scope = Scope(wanted)
        return (
            (not self.mode or mode in as_tuple(self.mode))
            and (not self.agent or agent in as_tuple(self.agent))
            and (not self.tools or any(fnmatchcase(tool, pattern) for pattern in as_tuple(self.tools)))
            and (not wanted or any(scope.matches(path) for path in paths))
        )


class Hook(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[hooks]]` entry: a `command` (text for /bin/sh, or a list of words) or an `entry_point` (`package.module:
    name`, installed beside Remit). `timeout_s` is in seconds.
    """

    on: HookMoment
    command: str | tuple[str, ...] | None = None
    entry_point: str | None = None
    when: HookCondition = HookCondition()
    timeout_s: Annotated[float, Meta(gt=0, le=MAX_TIMEOUT_S)] = 5
    on_error: Literal["deny", "allow"] = "deny"

    def __post_init__(self) -> None:
        if (self.command is None) == (self.entry_point is None):
            raise ValueError("expected `command` or `entry_point`, and not both")
        if self.command is not None and not "".join(self.command).strip():
            raise ValueError("`command` is empty")
        if "\0" in "".join(self.command or ""):
            raise ValueError("`command` holds a NUL character, which no command line can")
        if self.entry_point is not None and not all(self.entry_point.partition(":")):
            raise ValueError(f"`entry_point` is {self.entry_point!r}; expected `package.module:name`")


class NamedHook(Struct, frozen=True):
    """A hook and where it stands: `remit.toml#1` is the first one in that file."""

    name: str
    hook: Hook


class HookFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the hooks folder: `[[hooks]]`, and nothing else."""

    hooks: tuple[Hook, ...] = ()


class TrustItem(Struct, frozen=True):
    """A command, or a rule that loosens, that the repository brings. `digest` is the SHA-256 of what is trusted."""

    kind: TrustKind
    name: str
    text: str
    digest: str


class HookAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What a hook before a call prints. Only the effect has to be there; printing nothing is no objection."""

    effect: Verdict
    reason: str = ""
    arguments: dict[str, Any] | None = None
    context: str = ""


class AfterAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What a hook after a call may print. What was done is done: only the words count."""

    effect: Verdict | None = None
    reason: str = ""
    context: str = ""


def format_command(hook: Hook) -> str:
    """What a hook runs, on one line."""
    if hook.command is None:
        return f"{hook.entry_point} (Python)"
    return hook.command if isinstance(hook.command, str) else json.encode(hook.command).decode()


def format_conditions(hook: Hook) -> str:
    """What else is said of a hook, where it is not the default."""
    said = [f"{key} {value}" for key in HookCondition.__struct_fields__ for value in as_tuple(getattr(hook.when, key))]
    said += ["on_error allow"] if hook.on_error == "allow" else []
    return f"  ({', '.join(said)})" if said else ""


def make_hook_item(named: NamedHook, files: str) -> TrustItem:
    """A hook as a person trusts it: the whole entry, and the bytes of every file in the hooks folder (`files`)."""
    document = json.encode(named.hook, order="sorted")
    text = f"{named.hook.on}: {format_command(named.hook)}{format_conditions(named.hook)}"
    return TrustItem("hook", named.name, text, sha256(b"hook\0" + document + b"\0" + files.encode()))


def make_verify_item(command: str, name: str) -> TrustItem:
    """A criterion's `verify` command as a person trusts it, whichever intent it stands in."""
    return TrustItem("verify", name, command, sha256(b"verify\0" + command.encode("utf-8", "surrogatepass")))


def list_trust_items(hooks: tuple[NamedHook, ...], files: str, intents: tuple[Intent, ...]) -> tuple[TrustItem, ...]:
    """Everything that this repository would have Remit run, in the order in which it stands there."""
    commands = [(c.verify, i.id) for i in intents for c in i.acceptance_criteria if c.verify]
    return (
        *(make_hook_item(hook, files) for hook in hooks),
        *(make_verify_item(verify, name) for verify, name in commands),
    )


MAX_TOTAL_S = 30.0
"""Seconds that all commands after one call may take together: the agent waits for them."""

ALL_PATHS, EACH_PATH = "{paths}", "{path}"
UNQUOTED_PLACEHOLDER = re.compile(r"(?<!\S)\{paths?\}(?![^\s;|&)])")
PLACEHOLDER = re.compile(r"\{paths?\}")


class OnWriteCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """A command that runs after an agent wrote one of `paths` (patterns as in `owned_scope`).

    `command` is text for /bin/sh, or a list of words. A word that is `{paths}` becomes the files, one argument each;
    with `{path}` the command runs once for each file. It has `timeout_s` seconds; all that run after one call, 30.
    """

    paths: str | tuple[str, ...]
    command: str | tuple[str, ...]
    timeout_s: Annotated[float, Meta(gt=0, le=MAX_TOTAL_S)] = 10

    def __post_init__(self) -> None:
        for pattern in as_tuple(self.paths):
            why = "it is absolute" if is_absolute_pattern(pattern) else glob_error(pattern)
            if why is not None:
                raise ValueError(f"[verify] on_write: paths: {pattern!r} cannot be used: {why}")
        if not as_tuple(self.paths):
            raise ValueError("[verify] on_write: paths is empty; expected a pattern such as src/**/*.py")
        if why := find_command_fault(self.command):
            raise ValueError(f"[verify] on_write: command {self.command!r:.200} {why}")

    @property
    def text(self) -> str:
        """The command on one line."""
        return self.command if isinstance(self.command, str) else json.encode(self.command).decode()

    def covers(self, path: str) -> bool:
        """Whether the command is for that file."""
        return Scope(as_tuple(self.paths)).matches(path)

    def build_runs(self, paths: Sequence[str]) -> list[list[str]]:
        """The words of each run for these files, which are relative to where it runs."""
        safe = [path if path[:1].isalnum() else f"./{path}" for path in paths]  # `-x` is an option, `@x` a list of them
        each = EACH_PATH in PLACEHOLDER.findall("\0".join(as_tuple(self.command)))
        return [self.build_words([path]) for path in safe] if each else [self.build_words(safe)]

    def build_words(self, paths: list[str]) -> list[str]:
        """The words of one run."""
        if isinstance(self.command, str):
            text = PLACEHOLDER.sub(lambda place: '"$@"' if place[0] == ALL_PATHS else '"$1"', self.command)
            return ["/bin/sh", "-c", text, "sh", *paths]
        return [
            out
            for word in self.command
            for out in (paths if word == ALL_PATHS else [word.replace(EACH_PATH, paths[0])])
        ]


def find_command_fault(command: str | tuple[str, ...]) -> str:
    """Why a command cannot be used, as a clause; empty where it can."""
    whole = "".join(command)
    if not whole.strip() or "\0" in whole:
        return "is empty, or holds a NUL"
    places = PLACEHOLDER.findall(" ".join(as_tuple(command)))
    if len(set(places)) > 1:
        return "asks for {path} and {paths}; expected one of them"
    if isinstance(command, str):
        return (
            ""
            if not places or are_plain_words(command, places)
            else f"needs {places[0]} as a word of its own, unquoted"
        )
    return (
        ""
        if all(word == ALL_PATHS for word in command if ALL_PATHS in word)
        else f"needs {ALL_PATHS} as a word of its own"
    )


def are_plain_words(text: str, places: list[str]) -> bool:
    """Whether each place is a plain word of the shell's text: quoted, the shell would read what is in the name."""
    try:
        reader = shlex.shlex(text, posix=True, punctuation_chars=True)
        reader.whitespace_split, reader.commenters = True, ""
        words = list(reader)
    except ValueError:
        return False
    plain = sum(PLACEHOLDER.fullmatch(word) is not None for word in words)
    return "<<" not in text and len(UNQUOTED_PLACEHOLDER.findall(text)) == plain == len(places)


def list_on_write_items(rules: Sequence[OnWriteCommand]) -> tuple[TrustItem, ...]:
    """The commands as a person trusts them: with the files that they are for."""
    return tuple(
        TrustItem(
            "verify",
            f"remit.toml [verify] on_write#{number}",
            f"after a write of {', '.join(as_tuple(rule.paths))}: {rule.text}",
            hash_on_write(rule),
        )
        for number, rule in enumerate(rules, 1)
    )


def hash_on_write(rule: OnWriteCommand) -> str:
    """What tells a command from every other."""
    return sha256(b"on_write\0" + json.encode(rule, order="sorted"))
