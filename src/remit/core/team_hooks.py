"""Commands of a team that Remit runs: hooks around calls, checks after writes, and the trust they need.

File names are passed as arguments and never become part of a shell's text.
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
from remit.core.scope.globs import Scope, relative_glob_error

HookMoment: TypeAlias = Literal["before", "after"]
TrustKind: TypeAlias = Literal["hook", "verify", "generated"]

MAX_TIMEOUT_S = 60
"""Maximum timeout of a hook: an agent runs its tool once its own timeout ends."""


def as_tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return a value, or several, as a tuple; empty for an empty text."""
    return value if isinstance(value, tuple) else (value,) if value else ()


class HookCondition(Struct, frozen=True, forbid_unknown_fields=True):
    """Filters of a hook, each a value or a list; an empty filter matches every call.

    `tools` are shell patterns for the tool's name as the agent spells it; `paths` are patterns as in `owned_scope`.
    """

    mode: Mode | tuple[Mode, ...] = ()
    agent: str | tuple[str, ...] = ()
    tools: str | tuple[str, ...] = ()
    paths: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in as_tuple(self.paths):
            if fault := relative_glob_error(pattern):
                raise ValueError(f"when.paths: {pattern!r} cannot be used: {fault}")

    def covers(self, mode: Mode, agent: str, tool: str, paths: tuple[str, ...]) -> bool:
        """Return whether the hook applies. A hook with `paths` ignores calls without paths."""
        patterns = as_tuple(self.paths)
        scope = Scope(patterns)
        return (
            (not self.mode or mode in as_tuple(self.mode))
            and (not self.agent or agent in as_tuple(self.agent))
            and (not self.tools or any(fnmatchcase(tool, pattern) for pattern in as_tuple(self.tools)))
            and (not patterns or any(scope.matches(path) for path in paths))
        )


class Hook(Struct, frozen=True, forbid_unknown_fields=True):
    """A `[[hooks]]` entry: a `command` (text for /bin/sh, or a list of words) or an `entry_point`
    (`package.module:name`, installed beside Remit).
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
    """A hook and its place: `remit.toml#1` is the first hook in that file."""

    name: str
    hook: Hook


class HookFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of the hooks folder, holding only `[[hooks]]`."""

    hooks: tuple[Hook, ...] = ()


class TrustItem(Struct, frozen=True):
    """A command, or loosening rule, from the repository. `digest` is the SHA-256 that a person trusts."""

    kind: TrustKind
    name: str
    text: str
    digest: str


class HookAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """Output of a hook before a call. Only `effect` is required; empty output means no objection."""

    effect: Verdict
    reason: str = ""
    arguments: dict[str, Any] | None = None
    context: str = ""


class AfterAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """Output of a hook after a call. The call is over: only the texts count."""

    effect: Verdict | None = None
    reason: str = ""
    context: str = ""


def format_command(hook: Hook) -> str:
    if hook.command is None:
        return f"{hook.entry_point} (Python)"
    return hook.command if isinstance(hook.command, str) else json.encode(hook.command).decode()


def format_conditions(hook: Hook) -> str:
    """Return the hook's non-default conditions for people."""
    conditions = [
        f"{key} {value}" for key in HookCondition.__struct_fields__ for value in as_tuple(getattr(hook.when, key))
    ]
    conditions += ["on_error allow"] if hook.on_error == "allow" else []
    return f"  ({', '.join(conditions)})" if conditions else ""


def make_hook_item(named: NamedHook, files: str) -> TrustItem:
    """Return a hook as a trust item: its whole entry, and a digest of the hooks folder (`files`)."""
    document = json.encode(named.hook, order="sorted")
    text = f"{named.hook.on}: {format_command(named.hook)}{format_conditions(named.hook)}"
    return TrustItem("hook", named.name, text, sha256(b"hook\0" + document + b"\0" + files.encode()))


def make_verify_item(command: str, name: str) -> TrustItem:
    """Return a criterion's `verify` command as a trust item; the intent does not matter."""
    return TrustItem("verify", name, command, sha256(b"verify\0" + command.encode("utf-8", "surrogatepass")))


def list_trust_items(hooks: tuple[NamedHook, ...], files: str, intents: tuple[Intent, ...]) -> tuple[TrustItem, ...]:
    """Return the trust items of a repository in file order."""
    commands = [(c.verify, i.id) for i in intents for c in i.acceptance_criteria if c.verify]
    return (
        *(make_hook_item(hook, files) for hook in hooks),
        *(make_verify_item(verify, name) for verify, name in commands),
    )


MAX_TOTAL_S = 30.0
"""Seconds for the commands after a call together: the agent waits for them."""

ALL_PATHS, EACH_PATH = "{paths}", "{path}"
UNQUOTED_PLACEHOLDER = re.compile(r"(?<!\S)\{paths?\}(?![^\s;|&)])")
PLACEHOLDER = re.compile(r"\{paths?\}")


class OnWriteCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """A command run after an agent wrote a match of `paths` (patterns as in `owned_scope`).

    `command` is text for /bin/sh, or a list of words. The word `{paths}` becomes the files, an argument each; with
    `{path}` the command runs once per file. `timeout_s` limits a run; MAX_TOTAL_S limits the runs after a call.
    """

    paths: str | tuple[str, ...]
    command: str | tuple[str, ...]
    timeout_s: Annotated[float, Meta(gt=0, le=MAX_TOTAL_S)] = 10

    def __post_init__(self) -> None:
        for pattern in as_tuple(self.paths):
            if fault := relative_glob_error(pattern):
                raise ValueError(f"[verify] on_write: paths: {pattern!r} cannot be used: {fault}")
        if not as_tuple(self.paths):
            raise ValueError("[verify] on_write: paths is empty; expected a pattern such as src/**/*.py")
        if fault := find_command_fault(self.command):
            raise ValueError(f"[verify] on_write: command {self.command!r:.200} {fault}")

    @property
    def text(self) -> str:
        """Return the command on a single line."""
        return self.command if isinstance(self.command, str) else json.encode(self.command).decode()

    def covers(self, path: str) -> bool:
        return Scope(as_tuple(self.paths)).matches(path)

    def build_runs(self, paths: Sequence[str]) -> list[list[str]]:
        """Return the words of each run; `paths` are relative to the working folder."""
        # A path such as `-x` would be read as an option, and `@x` by some programs as a list of options.
        arguments = [path if path[:1].isalnum() else f"./{path}" for path in paths]
        once_per_file = EACH_PATH in PLACEHOLDER.findall("\0".join(as_tuple(self.command)))
        return [self.build_words([path]) for path in arguments] if once_per_file else [self.build_words(arguments)]

    def build_words(self, paths: list[str]) -> list[str]:
        if isinstance(self.command, str):
            text = PLACEHOLDER.sub(lambda place: '"$@"' if place[0] == ALL_PATHS else '"$1"', self.command)
            return ["/bin/sh", "-c", text, "sh", *paths]
        return [
            argument
            for word in self.command
            for argument in (paths if word == ALL_PATHS else [word.replace(EACH_PATH, paths[0])])
        ]


def find_command_fault(command: str | tuple[str, ...]) -> str:
    """Return the fault of a command as a clause, or an empty text."""
    whole = "".join(command)
    if not whole.strip() or "\0" in whole:
        return "is empty, or holds a NUL"
    places = PLACEHOLDER.findall(" ".join(as_tuple(command)))
    if len(set(places)) > 1:
        return "asks for {path} and {paths}; expected one of them"
    if isinstance(command, str):
        is_safe = not places or are_plain_words(command, places)
        return "" if is_safe else f"needs {places[0]} as a word of its own, unquoted"
    is_whole_word = all(word == ALL_PATHS for word in command if ALL_PATHS in word)
    return "" if is_whole_word else f"needs {ALL_PATHS} as a word of its own"


def are_plain_words(text: str, places: list[str]) -> bool:
    """Return whether each placeholder is an unquoted word: in quotes the shell would read file names as text."""
    try:
        reader = shlex.shlex(text, posix=True, punctuation_chars=True)
        reader.whitespace_split, reader.commenters = True, ""
        words = list(reader)
    except ValueError:
        return False
    plain = sum(PLACEHOLDER.fullmatch(word) is not None for word in words)
    return "<<" not in text and len(UNQUOTED_PLACEHOLDER.findall(text)) == plain == len(places)


def list_on_write_items(rules: Sequence[OnWriteCommand]) -> tuple[TrustItem, ...]:
    """Return the commands as trust items, together with their paths."""
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
    return sha256(b"on_write\0" + json.encode(rule, order="sorted"))
