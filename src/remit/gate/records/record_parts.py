"""Step 8: what really changed, as a record."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET, Struct

from remit.core.call import Outcome, ToolCall
from remit.core.code.file_names import has_known_language
from remit.core.decision import Violation
from remit.core.diff.contents import ContentVersion, Hunk, LineRange, hash_line_ranges
from remit.core.diff.edit_script import diff_at_lines, diff_small
from remit.core.display_text import escape_surrogates, quote_path
from remit.core.intent import Intent
from remit.core.record import (
    Body,
    CallPart,
    Content,
    Contributor,
    Conversation,
    DecisionPart,
    MutatedFile,
    MutationClass,
    Range,
    Related,
    TracedFile,
)
from remit.core.scope.globs import Scope
from remit.core.scope.repopath import InvalidPath, OutsideWorkspace, RepoPath
from remit.core.secrets.redaction import redact
from remit.core.secrets.secret_files import is_secret_file
from remit.gate.environment import Environment
from remit.gate.state.workspace_state import PendingCall
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.files.read_files import MAX_KEPT_BYTES, ObservedFile
from remit.workspace.observe.observation import Change
from remit.workspace.place.paths import resolve_real_paths
from remit.workspace.place.workspace import Workspace

Operation = Literal["create", "modify", "delete"]


def file_operation(change: Change) -> Operation:
    """What happened to the file."""
    if change.before is None:
        return "create"
    return "delete" if change.after is None else "modify"


class Difference(Struct, frozen=True):
    """How a change differs from what was there. `told` says that the tool's own answer gave the lines."""

    hunks: tuple[Hunk, ...]
    from_tool: bool = False

    @property
    def added_ranges(self) -> tuple[LineRange, ...]:
        """The lines that are new."""
        return tuple(lines for hunk in self.hunks if (lines := hunk.added_lines))


def find_differences(
    changes: Iterable[Change], positions: Mapping[str, tuple[LineRange, ...]], store: ContentStore
) -> dict[str, Difference]:
    """What each change put there: where the tool's own answer tells, from it, else by comparing; git is asked once."""
    found: dict[str, Difference] = {}
    unclear: dict[str, tuple[bytes, bytes]] = {}
    for change in changes:
        if change.after is None or change.after.content is None or (change.before and change.before.content is None):
            continue
        old = change.before.content if change.before and change.before.content is not None else b""
        known = find_difference(old, change.after.content, positions.get(change.path, ()))
        if known is None:
            unclear[change.path] = (old, change.after.content)
        else:
            found[change.path] = known
    return {**found, **{path: Difference(hunks) for path, hunks in store.compute_hunks(unclear).items()}}


def find_difference(old: bytes, new: bytes, told: tuple[LineRange, ...]) -> Difference | None:
    """How two contents differ, where that is told or small; else None."""
    placed = diff_at_lines(old, new, told) if told else None
    if placed is not None:
        return Difference(placed, from_tool=True)
    small = diff_small(old, new)
    return None if small is None else Difference(small)


def contents_to_keep(files: Iterable[tuple[str, ObservedFile | None]]) -> Iterator[tuple[str, bytes]]:
    """The contents that may be kept, with their paths. git's own files and those that hold secrets are not."""
    for path, found in files:
        if found is not None and found.content is not None and can_keep_content(path):
            yield path, found.content


def can_keep_content(path: str) -> bool:
    """Whether a file of that name may be kept with its content."""
    return not path.startswith(".git/") and not is_secret_file(path)


def is_in_scope(path: str, intent: Intent | None) -> bool:
    """Whether the intent owned that path when it was changed."""
    return intent is not None and Scope(intent.owned_scope).matches(path)


def content_part(found: ObservedFile | None) -> Content:
    """One side of a change."""
    if found is None:
        return Content()
    v = found.version
    return Content(sha256=v.sha256, git_blob=v.git_blob, lines=v.lines, mode=v.mode)


def traced_ranges(after: ObservedFile | None, ranges: tuple[LineRange, ...]) -> tuple[Range, ...]:
    """The ranges with the hash of their lines."""
    text = after.content if after else None
    if text is None or not ranges:
        return ()
    hashes = hash_line_ranges(text, [(r.start, r.end) for r in ranges])
    return tuple(Range(start_line=r.start, end_line=r.end, content_hash=h) for r, h in zip(ranges, hashes, strict=True))


def traced_file(
    path: str,
    ranges: tuple[Range, ...],
    session_id: str,
    intent_id: str | None,
    model: str | None,
    unproved: tuple[Range, ...] = (),
) -> TracedFile:
    """One changed file in the published shape. Of what nothing proves to be the session's, it is only a candidate."""
    related = (
        (Related(type="specification", url=f"urn:remit:intent:{intent_id}", value=intent_id),) if intent_id else UNSET
    )
    contributor = Contributor(type="ai", entity_type="AI", model_id=model or UNSET, model_identifier=model or UNSET)
    url, name = f"urn:remit:session:{quote_urn(session_id)}", quote_path(path)
    own = Conversation(ranges=ranges, url=url, contributor=contributor, related=related)
    open_ = Conversation(ranges=unproved, url=url, contributor=Contributor(type="unknown"), related=related)
    found = (*((own,) if ranges or not unproved else ()), *((open_,) if unproved else ()))
    return TracedFile(path=name, relative_path=name, conversations=found)


def quote_urn(text: str) -> str:
    """`text` as part of a URN. Source: RFC 8141 §2, read 2026-11."""
    keep = "-._~"
    return "".join(
        c if c.isascii() and (c.isalnum() or c in keep) else "".join(f"%{b:02X}" for b in c.encode("utf-8", "replace"))
        for c in text
    )


MAX_HUNKS = 500
"""More are left out of a record, and are found again by comparing the contents."""


def mutated_file(
    change: Change,
    intent: Intent | None,
    ranges: tuple[Range, ...],
    known: Difference | None = None,
    unproved: tuple[LineRange, ...] = (),
    likely: bool = False,
) -> MutatedFile:
    """One changed file in Remit's own part."""
    hunks = known.hunks if known and len(known.hunks) <= MAX_HUNKS else None
    return MutatedFile(
        path=quote_path(change.path),
        operation=file_operation(change),
        before=UNSET if change.before is None else content_part(change.before),
        after=UNSET if change.after is None else content_part(change.after),
        in_scope=is_in_scope(change.path, intent),
        ranges=ranges or UNSET,
        hunks=UNSET if hunks is None else tuple((h.old, h.old_lines, h.new, h.new_lines) for h in hunks),
        told=known.from_tool or UNSET if known else UNSET,
        unproved=tuple((lines.start, lines.end) for lines in unproved) or UNSET,
        likely=True if likely and unproved else UNSET,
    )


def call_part(call: ToolCall, paths: Iterable[str] = ()) -> CallPart:
    """The call as records name it."""
    return CallPart(
        id=call.call_id or UNSET,
        name=call.tool,
        effect=call.effect,
        paths=tuple(map(quote_path, paths)),
        command=UNSET if call.command is None else redact_command(call.command),
        arguments_sha256=call.arguments_sha256,
    )


MAX_COMMAND_CHARS = 4096
MAX_SEARCHED_CHARS = 4 * MAX_COMMAND_CHARS
"""No more of a command is searched for secrets: an agent may send one of many megabytes."""


def redact_command(command: str) -> str:
    """A command without the secrets that can be told from its text, cut at 4 KiB."""
    return redact(command[:MAX_SEARCHED_CHARS])[:MAX_COMMAND_CHARS]


def mutation_body(
    call: ToolCall, outcome: Outcome, pending: PendingCall | None, intent: Intent | None, files: tuple[MutatedFile, ...]
) -> Body:
    """The record of a mutation, without the published part."""
    judged = set(map(quote_path, pending.judged)) if pending else set[str]()
    return Body(
        event="mutation",
        intent_id=pending.intent_id if pending else None,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=call_part(call, [str(f.path) for f in files]),
        mutation_class=MutationClass(declared=call.citation.mutation_class, computed=compute_mutation_class(files)),
        files=files,
        decision=decision_part(pending) if pending else UNSET,
        in_scope=all(f.in_scope for f in files),
        covered=pending is not None and all(f.path in judged for f in files),
        duration_ms=UNSET if outcome.duration_ms is None else outcome.duration_ms,
    )


def compute_mutation_class(files: Iterable[MutatedFile]) -> str | None:
    """The class of a change, where it is known without a parser, for which a hook has no time; readers find the rest.

    Code that comes or goes is no refactoring, whatever else changed beside it.
    """
    known = any(f.operation in ("create", "delete") and has_known_language(str(f.path)) for f in files)
    return "INTENT_EVOLUTION" if known else None


def decision_part(pending: PendingCall) -> DecisionPart:
    """The decision that let the call through."""
    return DecisionPart(
        effect="allow",
        verdict=pending.verdict,
        mode=pending.mode,
        rules=pending.rules,
        approved_by="person" if pending.grants else None,
        grant=", ".join(dict.fromkeys(pending.grants)) or None,
        intent_sha256=pending.intent_sha256 or UNSET,
    )


def violation_document(violation: Violation) -> dict[str, Any]:
    """The violation as its JSON object, without the diff: records hold no file contents."""
    document = msgspec.to_builtins(violation)
    return clean_value({**document, "context": {k: v for k, v in document.get("context", {}).items() if k != "diff"}})


def clean_value(value: Any) -> Any:
    """A JSON value as records may hold it: without secrets, and encodable."""
    match value:
        case str():
            return escape_surrogates(redact_command(value))
        case dict():
            return {key: clean_value(found) for key, found in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [clean_value(found) for found in cast("list[Any]", value)]
        case _:
            return value


def load_version(version: ContentVersion | None, store: ContentStore) -> ObservedFile | None:
    """A version from before a call, with its content where it was kept."""
    if version is None:
        return None
    return ObservedFile(version, store.load(version.git_blob) if version.size <= MAX_KEPT_BYTES else None)


def paths_in_workspace(
    workspace: Workspace, call: ToolCall, raws: Iterable[str], environment: Environment
) -> list[str]:
    """Those paths of the call that lie in the workspace, relative to its root."""
    found: list[str] = []
    for raw in raws:
        try:
            reals = resolve_real_paths(raw, Path(call.cwd), environment.home)
            found += [str(RepoPath.parse(real, str(workspace.root))) for real in reals]
        except (InvalidPath, OutsideWorkspace):
            continue
    return found
