"""Settings of `remit.toml`, with a team's hooks and commands after writes, and the trust that these need.

Every key is optional; unknown keys are errors. File names are arguments, and never part of a shell's text.
"""

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import DecodeError, Meta, Struct, json

from remit.core.call import Effect
from remit.core.decision import UNWAIVABLE_CODES, ErrorType, Mode, ProjectGrant, Verdict
from remit.core.diff.contents import sha256
from remit.core.intent import Intent
from remit.core.redaction import MAX_PATTERNS, compile_team_pattern
from remit.core.scope.path_patterns import Scope, glob_error, relative_glob_error
from remit.core.tree_head import parse_public_key
from remit.core.untrusted_input import as_object

HookMoment: TypeAlias = Literal["before", "after"]
TrustKind: TypeAlias = Literal["hook", "verify", "generated", "data", "show", "mcp", "push", "grant"]
MAX_TIMEOUT_S = 60
"""Maximum timeout of a hook: an agent runs its tool once its own timeout ends."""


def as_tuple(value: str | tuple[str, ...]) -> tuple[str, ...]:
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
    """A hook and the place of its definition: `remit.toml#1` is the first hook in `remit.toml`."""

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


def make_hook_item(named: NamedHook, files: str) -> TrustItem:
    hook = named.hook
    command = f"{hook.entry_point} (Python)" if hook.command is None else format_command(hook.command)
    filters = [f"{key} {v}" for key in HookCondition.__struct_fields__ for v in as_tuple(getattr(hook.when, key))]
    filters += ["on_error allow"] if hook.on_error == "allow" else []
    conditions = f"  ({', '.join(filters)})" if filters else ""
    digest = sha256(b"hook\0" + json.encode(hook, order="sorted") + b"\0" + files.encode())
    return TrustItem("hook", named.name, f"{hook.on}: {command}{conditions}", digest)


def format_command(command: str | tuple[str, ...]) -> str:
    return command if isinstance(command, str) else json.encode(command).decode()


def make_verify_item(command: str, name: str) -> TrustItem:
    return TrustItem("verify", name, command, sha256(b"verify\0" + command.encode("utf-8", "surrogatepass")))


def list_trust_items(hooks: tuple[NamedHook, ...], files: str, intents: tuple[Intent, ...]) -> tuple[TrustItem, ...]:
    commands = ((c.verify, i.id) for i in intents for c in i.acceptance_criteria if c.verify)
    verify_items = (make_verify_item(command, name) for command, name in commands)
    return (*(make_hook_item(hook, files) for hook in hooks), *verify_items)


def make_grant_item(grant: ProjectGrant) -> TrustItem:
    subject = grant.pattern or " ".join(grant.command) or grant.tool
    text = f"{grant.code} is waived for {subject}, in every session"
    return TrustItem("grant", f"remit.toml [[grants]] {grant.id}", text, sha256(b"grant\0" + json.encode(grant)))


MCP_FILE = ".mcp.json"
"""MCP servers that a repository brings."""
MAX_MCP_BYTES = 256 * 1024


def parse_mcp_servers(content: bytes) -> dict[str, dict[str, Any]]:
    """Return the servers of an `.mcp.json` by name; none if it cannot be read."""
    try:
        servers = as_object(as_object(json.decode(content)).get("mcpServers"))
    except DecodeError:
        return {}
    return {name: as_object(entry) for name, entry in servers.items()}


def make_mcp_item(content: bytes) -> TrustItem:
    """Return an `.mcp.json` as a trust item: a person trusts exactly these bytes."""
    text = json.encode(parse_mcp_servers(content)).decode()
    return TrustItem("mcp", MCP_FILE, text, sha256(b"mcp\0" + content))


MAX_TOTAL_S = 30.0
"""Seconds for the commands after a call together: the agent waits for them."""
MAX_LANDING_TIMEOUT_S = 24 * 3600.0
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
        return format_command(self.command)

    def covers(self, path: str) -> bool:
        return Scope(as_tuple(self.paths)).matches(path)

    def build_runs(self, paths: Sequence[str]) -> list[list[str]]:
        """Return the words of each run; `paths` are relative to the working folder."""
        # A path such as `-x` would be read as an option, and `@x` by some programs as a list of options.
        names = [path if path[:1].isalnum() else f"./{path}" for path in paths]
        once_per_file = EACH_PATH in PLACEHOLDER.findall("\0".join(as_tuple(self.command)))
        runs = [[name] for name in names] if once_per_file else [names]
        if isinstance(self.command, str):
            text = PLACEHOLDER.sub(lambda place: '"$@"' if place[0] == ALL_PATHS else '"$1"', self.command)
            return [["/bin/sh", "-c", text, "sh", *run] for run in runs]
        return [
            [arg for word in self.command for arg in (run if word == ALL_PATHS else [word.replace(EACH_PATH, run[0])])]
            for run in runs
        ]


def find_command_fault(command: str | tuple[str, ...]) -> str:
    whole = "".join(command)
    if not whole.strip() or "\0" in whole:
        return "is empty, or holds a NUL"
    places = PLACEHOLDER.findall(" ".join(as_tuple(command)))
    if len(set(places)) > 1:
        return "asks for {path} and {paths}; expected one of them"
    if not isinstance(command, str):
        is_whole_word = all(word == ALL_PATHS for word in command if ALL_PATHS in word)
        return "" if is_whole_word else f"needs {ALL_PATHS} as a word of its own"
    # In quotes the shell would read file names as text.
    try:
        reader = shlex.shlex(command, posix=True, punctuation_chars=True)
        reader.whitespace_split, reader.commenters = True, ""
        plain = sum(PLACEHOLDER.fullmatch(word) is not None for word in reader)
    except ValueError:
        plain = -1
    is_safe = "<<" not in command and len(UNQUOTED_PLACEHOLDER.findall(command)) == plain == len(places)
    return "" if is_safe or not places else f"needs {places[0]} as a word of its own, unquoted"


def list_on_write_items(rules: Sequence[OnWriteCommand]) -> tuple[TrustItem, ...]:
    texts = (f"after a write of {', '.join(as_tuple(rule.paths))}: {format_command(rule.command)}" for rule in rules)
    items = enumerate(zip(rules, texts, strict=True), 1)
    return tuple(
        TrustItem("verify", f"remit.toml [verify] on_write#{number}", text, hash_on_write(rule))
        for number, (rule, text) in items
    )


def hash_on_write(rule: OnWriteCommand) -> str:
    return sha256(b"on_write\0" + json.encode(rule, order="sorted"))


class ShareSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Data that leaves the machine.

    `log` "ref" pushes a git ref per machine, `refs/remit/log/<machine>`; "tree" keeps a tracked file per machine under
    `.orchestration/log/`, and so in every commit.
    """

    notes: bool = False
    log: Literal["off", "ref", "tree"] = "off"


class LedgerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The ledger's witness, and keys that a team trusts: 64 hex digits, or verifier keys."""

    witness: str | None = None
    trusted_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in self.trusted_keys:
            parse_public_key(key)


class Redact(Struct, frozen=True, forbid_unknown_fields=True):
    """Regular expressions for a team's secrets; matches are masked before a record is written."""

    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.patterns) > MAX_PATTERNS:
            raise ValueError(f"[redact] patterns: there are {len(self.patterns)}; at most {MAX_PATTERNS} are allowed")
        for pattern in self.patterns:
            compile_team_pattern(pattern)


class ApprovalRules(Struct, frozen=True, forbid_unknown_fields=True):
    """When a person is asked, and how long an approval lasts.

    `threshold` is a risk from 0 to 100: destructive calls of at least this risk need approval even if every rule allows
    them; 0 asks about every destructive call. Unset, people are asked only about denials named by `overrides`.
    `timeout_s` is the lifetime of a question, by default the agent's own timeout minus 5 s.
    """

    threshold: int | None = None
    timeout_s: float | None = None
    grant_hours: float = 8

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 <= self.threshold <= 100:
            raise ValueError(f"[approvals] threshold: expected a risk from 0 to 100, not {self.threshold}")


OVERRIDABLE: tuple[ErrorType, ...] = (
    *("MISSING_OR_INVALID_INTENT", "SCOPE_VIOLATION", "INTENTIGNORE_PATH_BLOCKED", "STALE_FILE", "INTENT_CLOSED"),
)
"""Denials offered to a person unless the configuration says otherwise."""


class SessionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Time limits of sessions, leases and detours."""

    idle_minutes: float = 30
    lease_s: int = 60
    detour_minutes: int = 10


class IntentSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The statuses that Remit writes into the files of intents: with `closing` the end of an intent and a block, with
    `all` each status, with `never` none. The ledger has the rest of an intent's life. `layout` is the place of a new
    intent: `auto` keeps to an existing list. `ids` are counted, or six random digits; `auto` counts in repositories
    without a remote.

    `auto_select` says how a session without a selection gets its intent. "bound": by a person's binding, `REMIT_INTENT`
    or the branch's name only. "single": otherwise the only open intent.
    """

    write_back: Literal["closing", "all", "never"] = "closing"
    layout: Literal["auto", "files", "list"] = "auto"
    ids: Literal["auto", "count", "random"] = "auto"
    auto_select: Literal["bound", "single"] = "bound"


LessonsFile: TypeAlias = Literal["AGENT.md", "CLAUDE.md", "AGENTS.md"]


class LessonSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The file for lessons: `AGENT.md` beside the intents, or a file at the workspace root."""

    file: LessonsFile = "AGENT.md"


class TranscriptSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Retention of conversations, stored without secrets on this machine only.

    `retain_days` 0 stores no conversation: `remit why` reads the agents' own transcripts instead.
    """

    retain_days: float = 90

    def __post_init__(self) -> None:
        if not 0 <= self.retain_days <= 36500:
            raise ValueError(f"[transcripts] retain_days: expected 0 to 36500 days, not {self.retain_days}")


class SnapshotSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Retention and size limits of snapshots.

    `secret_days` applies to files with secret-like names; 0 never stores them.
    """

    keep_days: float = 14
    secret_days: float = 3
    max_mib: int = 2048
    max_file_mib: int = 50

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise ValueError(f"[snapshots] {name}: expected 0 or more, not {getattr(self, name)}")


class ContainmentRules(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for running shell commands contained if their text does not show their writes.

    `rewrite` "auto" contains commands in enforce mode if the agent accepts a rewritten command; "off" never does, and a
    comparison afterwards finds the effects. `generated` are patterns of unignored files that tools regenerate:
    contained commands may write untracked matches under any intent, once a person trusts the patterns. `data` are
    patterns of untracked runtime data, such as a local database: contained commands change the real files under any
    intent, once a person trusts the patterns. Up to `data_snapshot_mib` of it are copied before a command. `show` are
    secret places, for example `~/.aws/credentials`, visible to contained commands once a person trusts the list. After
    `time_limit_s` a command is ended and judged by the effects so far; 0 means no limit. A command writing more than
    `size_limit_mib` is ended, and all writes are dropped. `ssh_agent` gives access to the ssh-agent.
    """

    rewrite: Literal["auto", "off"] = "auto"
    generated: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    data_snapshot_mib: int = 256
    show: tuple[str, ...] = ()
    time_limit_s: float = 0
    size_limit_mib: int = 4096
    ssh_agent: bool = False

    @property
    def trust_items(self) -> tuple[TrustItem, ...]:
        return (*self.generated_items, *self.data_items, *self.show_items)

    @property
    def generated_items(self) -> tuple[TrustItem, ...]:
        if not self.generated:
            return ()
        digest = sha256(b"generated\0" + json.encode(self.generated))
        text = f"kept under any intent, and only counted: {', '.join(self.generated)}"
        return (TrustItem("generated", "remit.toml [containment] generated", text, digest),)

    @property
    def data_items(self) -> tuple[TrustItem, ...]:
        if not self.data:
            return ()
        digest = sha256(b"data\0" + json.encode(self.data))
        text = f"runtime data that commands change under any intent: {', '.join(self.data)}"
        return (TrustItem("data", "remit.toml [containment] data", text, digest),)

    @property
    def show_items(self) -> tuple[TrustItem, ...]:
        if not self.show:
            return ()
        digest = sha256(b"show\0" + json.encode(self.show))
        text = f"secrets that contained commands see: {', '.join(self.show)}"
        return (TrustItem("show", "remit.toml [containment] show", text, digest),)

    def __post_init__(self) -> None:
        if not 0 <= self.time_limit_s < float("inf"):
            raise ValueError(f"[containment] time_limit_s: expected 0 or more seconds, not {self.time_limit_s}")
        if self.size_limit_mib < 1:
            raise ValueError(f"[containment] size_limit_mib: expected 1 or more, not {self.size_limit_mib}")
        if self.data_snapshot_mib < 0:
            raise ValueError(f"[containment] data_snapshot_mib: expected 0 or more, not {self.data_snapshot_mib}")
        for name, patterns in (("generated", self.generated), ("data", self.data)):
            for pattern in patterns:
                fault = glob_error(pattern)
                if fault is not None:
                    raise ValueError(f"[containment] {name}: {pattern!r}: {fault}")
        if self.data:
            # Imported here: few repositories name runtime data, and every call reads the configuration.
            from remit.core.runtime_data import explain_refused_pattern

            for pattern in self.data:
                if refused := explain_refused_pattern(pattern):
                    raise ValueError(f"[containment] data: {pattern!r:.200}: {refused}")
        for place in self.show:
            parts = place.split("/")
            if parts[0] not in ("~", "") or len(parts) < 2 or not {"", ".", ".."}.isdisjoint(parts[1:]):
                raise ValueError(f"[containment] show: expected a path such as ~/.aws/credentials, not {place!r:.200}")
            if "\0" in place:
                raise ValueError(f"[containment] show: {place!r:.200} holds a NUL character")


TrailerStyle: TypeAlias = Literal["none", "kernel", "apache", "coauthor", "Remit-Intent"]


class Trailers(Struct, frozen=True, forbid_unknown_fields=True):
    """Trailers of commit messages that name an agent: `Assisted-by`, `Generated-by`, `Co-authored-by`, the intent.

    `Signed-off-by` is never used: only a person can certify.
    """

    style: TrailerStyle = "none"


class Verify(Struct, frozen=True, forbid_unknown_fields=True):
    """Commands checking agents' writes and, in place of the intents' criteria, work of several agents landing together.

    Rewrites by `on_write` are recorded as made by the command, failures are reported. Each command of `landing` is text
    for /bin/sh, runs contained on the files as they would land, and is ended after `landing_timeout_s` seconds.
    """

    on_write: tuple[OnWriteCommand, ...] = ()
    landing: tuple[str, ...] = ()
    landing_timeout_s: float = 1800

    def __post_init__(self) -> None:
        for command in self.landing:
            if not command.strip() or "\0" in command:
                raise ValueError(f"[verify] landing: {command!r:.200} is empty, or holds a NUL")
        if not 0 < self.landing_timeout_s <= MAX_LANDING_TIMEOUT_S:
            limit = f"expected more than 0 and at most {MAX_LANDING_TIMEOUT_S:g} seconds"
            raise ValueError(f"[verify] landing_timeout_s: {limit}, not {self.landing_timeout_s}")

    @property
    def landing_items(self) -> tuple[TrustItem, ...]:
        return tuple(
            TrustItem(
                "verify",
                f"remit.toml [verify] landing#{number}",
                f"to verify what lands: {format_command(command)}",
                sha256(b"landing\0" + command.encode("utf-8", "surrogatepass")),
            )
            for number, command in enumerate(self.landing, 1)
        )


class RunSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of Remit's own agent (`remit run`): the model as `PROVIDER:NAME`, the mode, and the limits of a run.

    `window` is the model's context window in tokens, for models missing in the table. `edit_tools` are the names of the
    edit tools offered instead of the model's usual tools. `language` and `instructions` go into the prompt.
    """

    model: str | None = None
    mode: str = "code"
    max_turns: int = 200
    max_cost_usd: float | None = None
    window: int | None = None
    edit_tools: tuple[str, ...] = ()
    language: str = ""
    instructions: str = ""

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise ValueError(f"[run] max_turns: expected 1 or more, not {self.max_turns}")
        if self.max_cost_usd is not None and not 0 < self.max_cost_usd < float("inf"):
            raise ValueError(f"[run] max_cost_usd: expected more than 0 US dollars, not {self.max_cost_usd}")
        if self.window is not None and self.window < 1000:
            raise ValueError(f"[run] window: expected 1000 tokens or more, not {self.window}")


LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


class ConsoleSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the console (`remit serve`). `ntfy` is a topic of an ntfy server, `webhook` an address that gets
    JSON: both hear of agents waiting for a person, once a person on this machine trusts the addresses.
    """

    ntfy: str | None = None
    webhook: str | None = None

    def __post_init__(self) -> None:
        for name in ("ntfy", "webhook"):
            address = getattr(self, name)
            if address is not None and (fault := find_address_fault(address)):
                raise ValueError(f"[console] {name}: {address!r:.200} {fault}")

    @property
    def trust_items(self) -> tuple[TrustItem, ...]:
        """Return the notification addresses as one item to trust: a repository must not decide where this machine sends
        its questions.
        """
        if self.ntfy is None and self.webhook is None:
            return ()
        text = ", ".join(f"{name} {getattr(self, name)}" for name in ("ntfy", "webhook") if getattr(self, name))
        digest = sha256(b"push\0" + json.encode([self.ntfy, self.webhook]))
        return (TrustItem("push", "remit.toml [console]", f"told that an agent waits: {text}", digest),)


def find_address_fault(address: str) -> str | None:
    from urllib.parse import urlsplit  # not above: every call of an agent loads the settings, and few have an address

    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no address; expected one such as https://ntfy.sh/my-topic"
    if parts.scheme not in ("https", "http") or not host or not address.isascii() or not address.isprintable():
        return "is no address; expected one such as https://ntfy.sh/my-topic"
    if " " in address or parts.fragment:
        return "holds a space or a `#`, which no address of a topic has"
    if parts.scheme == "http" and host not in LOOPBACK_HOSTS:
        return "is sent in the clear; expected https:// (http:// only on this machine)"
    return None


class Commons(Struct, frozen=True, forbid_unknown_fields=True):
    """Files touched by every change and owned by no task of a plan: a lock file, a changelog.

    Landing runs `make`, once a person trusts the command, or changes go into `fragments`, a folder of one file each.
    With `union` every task with the paths in scope may write them, and landing keeps all lines.
    """

    paths: tuple[str, ...]
    make: str | tuple[str, ...] = ""
    fragments: str = ""
    union: bool = False

    def __post_init__(self) -> None:
        for pattern in self.paths:
            fault = relative_glob_error(pattern) or ("it excludes" if pattern.startswith("!") else None)
            if fault is not None:
                raise ValueError(f"[orchestrator] commons: paths: {pattern!r} cannot be used: {fault}")
        if not self.paths or [bool(self.make), bool(self.fragments), self.union].count(True) != 1:
            raise ValueError("[orchestrator] commons: expected `paths`, and either `make` or `fragments` or `union`")

    @property
    def trusted_fields(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("paths", "make", "fragments")}


class AgentRole(Struct, frozen=True, forbid_unknown_fields=True):
    """The maximum for an attempt in this role: a role narrows the intent, and never widens it.

    `agent` are agents in the order of preference, any if empty. `paths` narrow the intent's scope, `effects` the calls.
    After the attempt, the roles in `chain` continue in the same work tree. `max_usd`, `max_minutes` and `max_tokens`
    bound a try.
    """

    name: str
    agent: str | tuple[str, ...] = ()
    model: str = ""
    paths: tuple[str, ...] = ("**",)
    effects: tuple[Effect, ...] = ("read", "write", "delete", "execute")
    max_usd: float = 3.0
    max_minutes: float = 40
    max_tokens: int | None = None
    chain: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not ROLE_NAME.fullmatch(self.name):
            raise ValueError(f"[orchestrator] roles: {self.name!r} is no name; expected one such as builder")
        for pattern in self.paths:
            if fault := relative_glob_error(pattern):
                raise ValueError(f"[orchestrator] roles: {self.name}: {pattern!r} cannot be used: {fault}")
        for field in ("max_usd", "max_minutes", "max_tokens"):
            if (bound := getattr(self, field)) is not None and not 0 < bound < float("inf"):
                raise ValueError(f"[orchestrator] roles: {self.name}: {field}: expected a number above 0")
        if self.name in self.chain:
            raise ValueError(f"[orchestrator] roles: {self.name}: a role cannot follow itself")


class AgentBudget(Struct, frozen=True, forbid_unknown_fields=True):
    """The maximum cost of an agent in a plan, over all attempts."""

    name: str
    max_usd: float | None = None
    max_tokens: int | None = None


class CouplingWeights(Struct, frozen=True, forbid_unknown_fields=True):
    """Weights of common commits, imports and intents when `remit plan suggest` asks which files belong together."""

    changes: float = 0.5
    imports: float = 0.3
    intents: float = 0.2

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"[orchestrator] weights: {name}: expected 0 to 1, not {getattr(self, name)}")


ROLE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
BRANCH_NAME = re.compile(r"(?![-/.])(?!.*(?:\.\.|//|@\{|\.lock(?:/|\Z)|/\.))[^\x00-\x20\x7f~^:?*\[\\]+(?<![/.])")
"""Names that git allows for a branch. Source: git-check-ref-format(1), read 2026-11."""
REMOTE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
MAX_WORKERS = 64


class OrchestratorSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of plans, which run several agents at once.

    Landed work goes to the branch `target`. `workers` attempts run at a time on this machine, up to `train` tasks land
    together, a task is tried `attempts` times, and an attempt silent for `stall_s` seconds is ended. `links` are
    folders, for example of dependencies, visible read-only in each work tree; `setup` is a command preparing a work
    tree before the agent starts, within `setup_minutes`. With `jail = "require"` no agent works on a machine without
    bubblewrap. An intent lands as a `form`: a merge commit, or one squashed commit. With a git `remote` the remote's
    branch moves first, and several hosts share the branch. A task begins in the role `first_role`, and continues in the
    roles of the chain. `max_usd` and `max_tokens` bound a plan started without limits, `task_max_usd` and
    `task_max_tokens` each task of the plan, `agents` each agent.
    """

    target: str = "remit/next"
    workers: int = 4
    train: int = 8
    attempts: int = 3
    stall_s: float = 300
    commons: tuple[Commons, ...] = ()
    links: tuple[str, ...] = ()
    setup: str | tuple[str, ...] = ""
    setup_minutes: float = 10
    first_role: str = "builder"
    form: Literal["merge", "squash"] = "merge"
    remote: str = ""
    jail: Literal["prefer", "require"] = "prefer"
    roles: tuple[AgentRole, ...] = ()
    max_usd: float | None = None
    max_tokens: int | None = None
    task_max_usd: float | None = None
    task_max_tokens: int | None = None
    agents: tuple[AgentBudget, ...] = ()
    weights: CouplingWeights = CouplingWeights()

    def __post_init__(self) -> None:
        if not BRANCH_NAME.fullmatch(self.target):
            raise ValueError(f"[orchestrator] target: {self.target!r} is no name of a branch")
        if not 1 <= self.workers <= MAX_WORKERS:
            raise ValueError(f"[orchestrator] workers: expected 1 to {MAX_WORKERS}, not {self.workers}")
        if not 0 < self.setup_minutes < float("inf"):
            raise ValueError(f"[orchestrator] setup_minutes: expected a number above 0, not {self.setup_minutes}")
        for name in ("train", "attempts", "stall_s"):
            if not 1 <= getattr(self, name) < float("inf"):
                raise ValueError(f"[orchestrator] {name}: expected 1 or more, not {getattr(self, name)}")
        if self.remote and not REMOTE_NAME.fullmatch(self.remote):
            raise ValueError(f"[orchestrator] remote: {self.remote!r:.200} is no name of a remote, such as origin")
        for link in self.links:
            if fault := relative_glob_error(link) or ("it excludes" if link.startswith("!") else None):
                raise ValueError(f"[orchestrator] links: {link!r} cannot be used: {fault}")
        bounds = [(name, getattr(self, name)) for name in ("max_usd", "max_tokens", "task_max_usd", "task_max_tokens")]
        bounds += [(f"agents: {a.name}: {n}", getattr(a, n)) for a in self.agents for n in ("max_usd", "max_tokens")]
        for name, bound in bounds:
            if bound is not None and not 0 < bound < float("inf"):
                raise ValueError(f"[orchestrator] {name}: expected a number above 0, not {bound}")
        names = [role.name for role in self.roles]
        if len(set(names)) < len(names):
            raise ValueError(f"[orchestrator] roles: a name stands twice in {', '.join(names)}")

    @property
    def union_paths(self) -> tuple[str, ...]:
        """Patterns of the files that every task may write, because landing keeps the lines of all."""
        return tuple(path for common in self.commons if common.union for path in common.paths)

    @property
    def trust_items(self) -> tuple[TrustItem, ...]:
        made = ((number, common) for number, common in enumerate(self.commons, 1) if common.make)
        commons = tuple(
            TrustItem(
                "verify",
                f"remit.toml [orchestrator] commons#{number}",
                f"to make {', '.join(common.paths)} when work lands: {format_command(common.make)}",
                sha256(b"commons\0" + json.encode(common.trusted_fields, order="sorted")),
            )
            for number, common in made
        )
        return (*commons, *self.setup_items)

    @property
    def setup_items(self) -> tuple[TrustItem, ...]:
        if not self.setup:
            return ()
        text = f"to prepare each work tree of a plan: {format_command(self.setup)}"
        digest = sha256(b"setup\0" + json.encode(self.setup))
        return (TrustItem("verify", "remit.toml [orchestrator] setup", text, digest),)


class ToolSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A person's rules for tools missing in the agents' rows: patterns of names, for example `mcp__github__list_*`.

    Tools in `read` and `harmless` need no intent; tools in `ask` need a person's yes. Only a person's own settings have
    this table: a repository cannot call a tool harmless.
    """

    read: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()


class MachineSettings(Struct, frozen=True):
    """The person's own settings on this machine, as far as the gate needs them."""

    tools: ToolSettings = ToolSettings()


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. Without `mode`, a governed workspace enforces if an intents file exists, and observes
    otherwise.
    """

    mode: Mode | None = None
    share: ShareSettings = ShareSettings()
    ledger: LedgerSettings = LedgerSettings()
    redact: Redact = Redact()
    session: SessionSettings = SessionSettings()
    intents: IntentSettings = IntentSettings()
    approvals: ApprovalRules = ApprovalRules()
    overrides: tuple[ErrorType, ...] = OVERRIDABLE
    lessons: LessonSettings = LessonSettings()
    trailers: Trailers = Trailers()
    transcripts: TranscriptSettings = TranscriptSettings()
    snapshots: SnapshotSettings = SnapshotSettings()
    containment: ContainmentRules = ContainmentRules()
    verify: Verify = Verify()
    run: RunSettings = RunSettings()
    console: ConsoleSettings = ConsoleSettings()
    orchestrator: OrchestratorSettings = OrchestratorSettings()
    hooks: tuple[Hook, ...] = ()
    grants: tuple[ProjectGrant, ...] = ()

    def __post_init__(self) -> None:
        never = next((code for code in self.overrides if code in UNWAIVABLE_CODES), None)
        if never is not None:
            raise ValueError(f"overrides: {never} is never waived; take it out")
