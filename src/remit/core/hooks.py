"""Hooks: commands of a team's own that see each call, and the commands that a person has to trust before they run."""

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, json

from remit.core.contents import sha256
from remit.core.decision import Mode, Verdict
from remit.core.globs import Scope, glob_error, is_absolute_pattern
from remit.core.intent import Intent

Moment: TypeAlias = Literal["before", "after"]
Kind: TypeAlias = Literal["hook", "verify", "generated"]

LONGEST_S = 60
"""The longest time limit of one hook: an agent runs its tool when its own patience ends."""


def listed(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """One value, or several, as a tuple; none for an empty text."""
    return value if isinstance(value, tuple) else (value,) if value else ()


class When(Struct, frozen=True, forbid_unknown_fields=True):
    """Which calls a hook sees: all, where nothing is said. One value or a list of them for each key.

    `tools` are shell patterns for the tool's name as the agent spells it; `paths` are patterns as in `owned_scope`.
    """

    mode: Mode | tuple[Mode, ...] = ()
    agent: str | tuple[str, ...] = ()
    tools: str | tuple[str, ...] = ()
    paths: str | tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for pattern in listed(self.paths):
            absolute = is_absolute_pattern(pattern)
            if why := "it is absolute; patterns start at the workspace root" if absolute else glob_error(pattern):
                raise ValueError(f"when.paths: {pattern!r} cannot be used: {why}")

    def covers(self, mode: Mode, agent: str, tool: str, paths: tuple[str, ...]) -> bool:
        """Whether the hook is for a call like this. One that is bound to paths sees no call without any."""
        wanted = listed(self.paths)
        scope = Scope(wanted)
        return (
            (not self.mode or mode in listed(self.mode))
            and (not self.agent or agent in listed(self.agent))
            and (not self.tools or any(fnmatchcase(tool, pattern) for pattern in listed(self.tools)))
            and (not wanted or any(scope.matches(path) for path in paths))
        )


class Hook(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[hooks]]` entry: a `command` (text for /bin/sh, or a list of words) or an `entry_point` (`package.module:
    name`, installed beside Remit). `timeout_s` is in seconds.
    """

    on: Moment
    command: str | tuple[str, ...] | None = None
    entry_point: str | None = None
    when: When = When()
    timeout_s: Annotated[float, Meta(gt=0, le=LONGEST_S)] = 5
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


class Brought(Struct, frozen=True):
    """A command, or a rule that loosens, that the repository brings. `digest` is the SHA-256 of what is trusted."""

    kind: Kind
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


def words_of(hook: Hook) -> str:
    """What a hook runs, on one line."""
    if hook.command is None:
        return f"{hook.entry_point} (Python)"
    return hook.command if isinstance(hook.command, str) else json.encode(hook.command).decode()


def conditions(hook: Hook) -> str:
    """What else is said of a hook, where it is not the default."""
    said = [f"{key} {value}" for key in When.__struct_fields__ for value in listed(getattr(hook.when, key))]
    said += ["on_error allow"] if hook.on_error == "allow" else []
    return f"  ({', '.join(said)})" if said else ""


def brought_hook(named: NamedHook, files: str) -> Brought:
    """A hook as a person trusts it: the whole entry, and the bytes of every file in the hooks folder (`files`)."""
    document = json.encode(named.hook, order="sorted")
    text = f"{named.hook.on}: {words_of(named.hook)}{conditions(named.hook)}"
    return Brought("hook", named.name, text, sha256(b"hook\0" + document + b"\0" + files.encode()))


def brought_verify(command: str, name: str) -> Brought:
    """A criterion's `verify` command as a person trusts it, whichever intent it stands in."""
    return Brought("verify", name, command, sha256(b"verify\0" + command.encode("utf-8", "surrogatepass")))


def brought_by(hooks: tuple[NamedHook, ...], files: str, intents: tuple[Intent, ...]) -> tuple[Brought, ...]:
    """Everything that this repository would have Remit run, in the order in which it stands there."""
    commands = [(c.verify, i.id) for i in intents for c in i.acceptance_criteria if c.verify]
    return (
        *(brought_hook(hook, files) for hook in hooks),
        *(brought_verify(verify, name) for verify, name in commands),
    )
