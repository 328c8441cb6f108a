"""Patches between attempts, people and machines: a unified diff with the hashes of its base contents.

A patch is applied exactly, or by a three-way merge with the recorded base, or refused with the authors of later
changes; all files or none. A patch never names commands, the text is data, and the gate sees a single call of the
receiving session.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import DecodeError, Struct, ValidationError, json, to_builtins
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall, hash_arguments
from remit.core.decision import ErrorType
from remit.core.diff import formats
from remit.core.diff.contents import (
    decode_content,
    encode_content,
    find_edit_script,
    hash_git_blob,
    sha256,
    split_with_ends,
)
from remit.core.diff.edits import PatchMismatch, apply_hunks
from remit.core.intent import is_intent_id
from remit.core.python_runtime import prepare_type
from remit.core.scope.path_patterns import InvalidPath, OutsideWorkspace, RepoPath
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import RECORDING_ERRORS, WorkspaceContext, contents_to_keep
from remit.gate.gate import Gate
from remit.gate.gather import gather_facts
from remit.gate.perform import ToolOutput, WorkspaceAccess, WrittenFile
from remit.policy.decide import decide
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import repository_id
from remit.workspace.observe.observation import try_observe_file
from remit.workspace.place.resolve_paths import inside_protection_reason, resolve_real_paths

PATCH_SCHEMA = "remit.patch/1"
PATCH_TOOL = "submit_patch"
MAX_EXPECTED_LINES = 40
MAX_CHANGERS = 10

FileOperationKind: TypeAlias = Literal["create", "modify", "delete", "rename"]
EXCHANGED_KINDS: dict[formats.OperationKind, FileOperationKind] = {
    "add": "create",
    "update": "modify",
    "delete": "delete",
}
RejectReason: TypeAlias = Literal[
    "malformed",
    "base_unknown",
    "base_changed",
    "overlaps",
    "already_applied",
    "outside_scope",
    "protected",
    "binary",
    "too_large",
    "refused",
]
REASONS_OF_CODES: dict[ErrorType, RejectReason] = {
    "SCOPE_VIOLATION": "outside_scope",
    "PROTECTED_PATH": "protected",
    "OUTSIDE_WORKSPACE": "protected",
    "INTENTIGNORE_PATH_BLOCKED": "protected",
}


class ContentName(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A content by its SHA-256 and by git's name; a plain diff of git's knows only the latter."""

    sha256: str = ""
    git_blob: str = ""

    def names_content(self, content: bytes) -> bool:
        if self.sha256:
            return sha256(content) == self.sha256
        return bool(self.git_blob) and name_content(content, self.git_blob).git_blob == self.git_blob


class DiffHunk(Struct, frozen=True, forbid_unknown_fields=True):
    """A hunk as `@@ -old_start,old_lines +new_start,new_lines @@` and its lines, which are those of `PatchHunk`."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: tuple[str, ...]


class ExchangedFile(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file of a patch. `base` and `result` are absent where there is no file; `old_path` is of a renamed one."""

    path: str
    operation: FileOperationKind
    hunks: tuple[DiffHunk, ...] = ()
    base: ContentName | None = None
    result: ContentName | None = None
    old_path: str = ""
    mode: str = ""
    """The file's new mode, where it changes or the file is new."""

    @property
    def source(self) -> str:
        return self.old_path or self.path


class ExchangedPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """A patch with its author and the hashes of what it was made for. `sha256` names the rest of it."""

    schema: Literal["remit.patch/1"]
    files: tuple[ExchangedFile, ...]
    intent_id: str = ""
    attempt: int = 0
    repository: str = ""
    base_commit: str = ""
    sha256: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path for file in self.files for path in (file.source, file.path)))


class LineChanger(Struct, frozen=True, omit_defaults=True):
    """Who wrote contested lines: an intent and session, or a commit of a person's."""

    intent_id: str | None = None
    session_id: str | None = None
    agent: str | None = None
    commit: str | None = None


class FoundLines(Struct, frozen=True, omit_defaults=True):
    """The lines that a hunk meets, from `start` on, in the content with that hash."""

    sha256: str = ""
    start: int = 0
    lines: tuple[str, ...] = ()


class PatchRejection(Struct, frozen=True):
    """Why a patch was not applied, in the form that agents get. `hunk` counts from 1; 0 is the file as a whole."""

    path: str
    reason: RejectReason
    message: str = ""
    hunk: int = 0
    expected: FoundLines = FoundLines()
    found: FoundLines = FoundLines()
    changed_by: tuple[LineChanger, ...] = ()
    error_type: Literal["PATCH_REJECTED"] = "PATCH_REJECTED"
    action_hint: str = "read_file"


class PatchRejected(ValueError):
    """A patch that is not applied; nothing was written."""

    def __init__(self, rejection: PatchRejection) -> None:
        super().__init__(f"{sanitise_line(rejection.path, 200)}: {rejection.reason} {rejection.message}".strip())
        self.rejection = rejection


class PatchedContent(Struct, frozen=True):
    """A file as the patch leaves it. `is_merged`: by a three-way merge."""

    file: WrittenFile
    is_merged: bool = False


class AppliedPatch(Struct, frozen=True):
    """Result of applying: the written paths, and which of them were merged with changes since."""

    paths: tuple[str, ...]
    merged: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


# Making


def make_diff(context: WorkspaceContext, base: str, to: str) -> bytes:
    """Return git's diff from one commit to another. Raises GitError."""
    words = ("--full-index", "--find-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--unified=3")
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/", "--relative")
    return Git(context.workspace.root).run("diff", *words, *prefixes, "--end-of-options", base, to, "--")


def make_patch(context: WorkspaceContext, base: str, to: str, intent_id: str = "", attempt: int = 0) -> ExchangedPatch:
    """Return the patch from one commit to another. Raises PatchRejected for binary files, GitError."""
    diff = make_diff(context, base, to)
    git = Git(context.workspace.root)
    commit = git.text("rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}")
    files = [describe_file(context, file) for file in (parse_diff(diff) if diff else ())]
    patch = ExchangedPatch(PATCH_SCHEMA, tuple(files), intent_id, attempt, repository_id(context.workspace), commit)
    return replace(patch, sha256=hash_patch(patch))


def describe_file(context: WorkspaceContext, file: formats.FileOperation) -> ExchangedFile:
    """Return a file of a diff with the hashes of its contents, as far as they are stored here."""
    old, new = (context.contents.load(blob) if blob.strip("0") else None for blob in (file.old_blob, file.new_blob))
    base = ContentName("", file.old_blob) if file.old_blob.strip("0") else None
    result = ContentName("", file.new_blob) if file.new_blob.strip("0") else None
    if file.moved_to is not None and not file.old_blob:
        # A file that was only renamed has no index line: its name is that of the content here.
        seen = try_observe_file(context.workspace.root / file.path)
        old = new = seen.content if seen else None
        base = result = ContentName() if old is None else name_content(old, "")
    return ExchangedFile(
        file.moved_to or file.path,
        "rename" if file.moved_to is not None else EXCHANGED_KINDS[file.kind],
        tuple(DiffHunk(h.line or 0, len(h.old), h.new_line, len(h.new), h.lines) for h in file.hunks),
        base and (name_content(old, base.git_blob) if old is not None else base),
        result and (name_content(new, result.git_blob) if new is not None else result),
        file.path if file.moved_to is not None else "",
        file.new_mode if file.new_mode != file.old_mode else "",
    )


def name_content(content: bytes, like: str) -> ContentName:
    return ContentName(sha256(content), hash_git_blob(content, "sha256" if len(like) == 64 else "sha1"))


def hash_patch(patch: ExchangedPatch) -> str:
    return sha256(json.encode(replace(patch, sha256=""), order="sorted"))


# Reading


def read_patch(context: WorkspaceContext, content: bytes) -> ExchangedPatch:
    """Return a patch given as JSON, or as git's unified diff. Raises PatchRejected."""
    if len(content) > 2 * formats.MAX_DIFF_BYTES:
        raise PatchRejected(PatchRejection("", "too_large", f"it has more than {2 * formats.MAX_DIFF_BYTES} bytes"))
    if not content.lstrip().startswith(b"{"):
        files = tuple(describe_file(context, file) for file in parse_diff(content))
        return ExchangedPatch(PATCH_SCHEMA, files)
    try:
        patch = json.decode(content, type=prepare_type(ExchangedPatch))
    except (DecodeError, ValidationError, RecursionError) as error:
        raise PatchRejected(PatchRejection("", "malformed", str(error)[:200])) from error
    if patch.sha256 and patch.sha256 != hash_patch(patch):
        raise PatchRejected(PatchRejection("", "malformed", "its content is not the one that its hash names"))
    if sum(len(file.hunks) for file in patch.files) > formats.MAX_HUNKS:
        raise PatchRejected(PatchRejection("", "too_large", f"it has more than {formats.MAX_HUNKS} hunks"))
    if len(patch.paths) != sum(1 + bool(file.old_path) for file in patch.files):
        raise PatchRejected(PatchRejection("", "malformed", "a file occurs twice"))
    return patch


def parse_diff(content: bytes) -> tuple[formats.FileOperation, ...]:
    try:
        return formats.parse_git_diff(content)
    except formats.PatchError as error:
        raise PatchRejected(PatchRejection("", error.fault, str(error))) from error


def name_bases(context: WorkspaceContext, patch: ExchangedPatch) -> ExchangedPatch:
    """Return a patch of this workspace with the base contents named and stored, for a merge into files changed since.
    Raises PatchRejected for a path leading out, RECORDING_ERRORS.
    """
    files: list[ExchangedFile] = []
    for file in patch.files:
        require_inside(context, file.source)
        seen = try_observe_file(context.workspace.root / file.source)
        has_name = file.base is not None and (file.base.sha256 or file.base.git_blob)
        if file.operation == "create" or has_name or seen is None or seen.content is None:
            files.append(file)
            continue
        context.keep_contents(contents_to_keep([(file.source, seen)]))
        files.append(replace(file, base=name_content(seen.content, seen.version.git_blob)))
    return replace(patch, files=tuple(files))


# Checking


def check_patch(context: WorkspaceContext, patch: ExchangedPatch) -> tuple[PatchedContent, ...]:
    """Return what the patch leaves in each file, without writing. Raises PatchRejected for the first that fails."""
    contents = [content for file in patch.files for content in PatchedFileCheck(context, file).patch()]
    if not contents:
        raise PatchRejected(PatchRejection("", "malformed", "it changes nothing"))
    return tuple(contents)


def require_inside(context: WorkspaceContext, path: str) -> None:
    """Raise PatchRejected for a path that leads out of the workspace, or is not spelled as git spells it."""
    root = context.workspace.root
    try:
        reals = resolve_real_paths(path, root, context.environment.home)
        inside = [str(RepoPath.parse(real, str(root))) for real in reals]
    except (InvalidPath, OutsideWorkspace) as error:
        raise PatchRejected(PatchRejection(sanitise_line(path, 200), "protected", str(error)[:200])) from error
    if reason := inside_protection_reason(path, context.environment.settings):
        raise PatchRejected(PatchRejection(sanitise_line(path, 200), "protected", reason))
    if inside != [path]:
        raise PatchRejected(
            PatchRejection(sanitise_line(path, 200), "protected", "a link or another spelling leads there")
        )


class PatchedFileCheck:
    """A file of a patch against the file that is there."""

    def __init__(self, context: WorkspaceContext, file: ExchangedFile) -> None:
        self.context = context
        self.file = file
        for path in (file.source, file.path):
            require_inside(context, path)
        seen = try_observe_file(context.workspace.root / file.source)
        if seen is not None and seen.version.mode not in formats.PLAIN_MODES:
            raise PatchRejected(PatchRejection(file.path, "malformed", "the file here is a link"))
        self.found = seen.content if seen is not None else None
        self.exists = seen is not None

    def patch(self) -> tuple[PatchedContent, ...]:
        """Return the file's new content, and the removal of its old name. Raises PatchRejected."""
        file = self.file
        mode = {"100755": 0o755, "100644": 0o644}.get(file.mode)
        if file.mode and mode is None:
            raise self.reject("malformed", f"{file.mode!r} is the mode of no plain file")
        if self.exists and self.found is None:
            raise self.reject("too_large", "the file here is too large to be patched")
        if file.operation == "create":
            content = self.apply_to(b"")
            if self.found is not None:
                raise self.reject("already_applied" if self.found == content else "base_changed", "the file exists")
            return (PatchedContent(WrittenFile(file.path, content, mode)),)
        if self.found is None:
            raise self.reject(
                "already_applied" if file.operation == "delete" else "base_changed", "there is no such file"
            )
        if file.operation == "delete":
            if file.base is None or not file.base.names_content(self.found):
                raise self.reject("base_changed", "the file has changed since, and would be lost")
            return (PatchedContent(WrittenFile(file.path, None)),)
        if file.operation == "rename" and try_observe_file(self.context.workspace.root / file.path) is not None:
            raise self.reject("base_changed", f"{file.path!r} exists")
        content, is_merged = self.merge(self.found)
        gone = (PatchedContent(WrittenFile(file.source, None)),) if file.operation == "rename" else ()
        return (*gone, PatchedContent(WrittenFile(file.path, content, mode), is_merged))

    def apply_to(self, base: bytes) -> bytes:
        """Return the patch's result on its own base. Raises PatchRejected if the patch is not true to itself."""
        hunks = [formats.PatchHunk(hunk.lines, line=hunk.old_start) for hunk in self.file.hunks]
        try:
            result = encode_content(apply_hunks(base, hunks).content)
        except PatchMismatch as error:
            raise self.reject("malformed", "the hunk does not fit the patch's own base", error.hunk) from error
        named = self.file.result
        if named is not None and (named.sha256 or named.git_blob) and not named.names_content(result):
            raise self.reject("malformed", "the result is not the one that the patch names")
        return result

    def merge(self, found: bytes) -> tuple[bytes, bool]:
        """Return the file with the change, and whether a three-way merge made it. Raises PatchRejected."""
        named = self.file.base
        if named is None or not (named.sha256 or named.git_blob):
            raise self.reject("base_unknown", "the patch does not name the content that it was made for")
        if named.names_content(found):
            return self.apply_to(found), False
        result = self.file.result
        if self.file.operation == "modify" and result is not None and result.names_content(found):
            raise self.reject("already_applied", "the file is as the patch would leave it")
        base = self.context.contents.load(named.git_blob) if named.git_blob else None
        if base is None or not named.names_content(base):
            raise self.reject("base_unknown", "the content that the patch was made for is not stored here")
        wanted = self.apply_to(base)
        merged = merge_contents(Git(self.context.workspace.root), found, base, wanted)
        if merged is None:
            raise self.explain_overlap(base, found)
        if merged == found:
            raise self.reject("already_applied", "the change is in the file already")
        return merged, True

    # Refusing

    def reject(self, reason: RejectReason, message: str, hunk: int = 0) -> PatchRejected:
        name = sha256(self.found) if self.found is not None else ""
        expected = FoundLines(self.file.base.sha256) if self.file.base is not None else FoundLines()
        return PatchRejected(PatchRejection(self.file.path, reason, message, hunk, expected, FoundLines(name)))

    def explain_overlap(self, base: bytes, found: bytes) -> PatchRejected:
        old, new = (split_with_ends(decode_content(content)) for content in (base, found))
        before, after = ([encode_content(line) for line in side] for side in (old, new))
        parts = find_edit_script(before, after) or []
        for number, hunk in enumerate(self.file.hunks, 1):
            start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
            end = start + hunk.old_lines
            met = [part for part in parts if part[0] <= end and part[1] >= start]
            if met:
                first, last = met[0], met[-1]
                at = max(0, min(start, first[0]) - first[0] + first[2])
                to = last[3] + max(0, end - last[1])
                expected = FoundLines(
                    "" if self.file.base is None else self.file.base.sha256, start + 1, cut(old[start:end])
                )
                there = FoundLines(sha256(found), at + 1, cut(new[at:to]))
                changers = find_changers(self.context, self.file.source, at + 1, max(to, at + 1))
                message = "the lines that it changes were changed since"
                rejection = PatchRejection(self.file.path, "overlaps", message, number, expected, there, changers)
                return PatchRejected(rejection)
        return self.reject("overlaps", "the change and what happened since cannot be merged")


def cut(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line.removesuffix("\n").encode("utf-8", "replace").decode() for line in lines[:MAX_EXPECTED_LINES])


def merge_contents(git: Git, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """Return the three-way merge of a content; None for a conflict. Raises GitError."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in ("ours", "base", "theirs")]
        for place, content in zip(places, (ours, base, theirs), strict=True):
            place.write_bytes(content)
        try:
            return git.run("merge-file", "-p", "--quiet", *map(str, places))
        except GitError as error:
            if error.code is None or not 0 < error.code < 128:
                raise
            return None


def find_changers(context: WorkspaceContext, path: str, first: int, last: int) -> tuple[LineChanger, ...]:
    # Imported here: only a refusal needs blame.
    from remit.provenance.blame.blame import Blamer

    try:
        with context.index() as index:
            lines = Blamer(context.workspace, index, context.contents).blame(path)
    except RECORDING_ERRORS:
        return ()
    near = [line for line in lines if first <= line.line <= last]
    found = (
        LineChanger(line.intent_id, line.session_id, line.agent, line.commit if line.commit.strip("0") else None)
        for line in near
    )
    return tuple(dict.fromkeys(found))[:MAX_CHANGERS]


# Applying


def build_call(gate: Gate, patch: ExchangedPatch, session: SessionKey, agent: str, call_id: str) -> ToolCall:
    only_deletes = all(file.operation == "delete" for file in patch.files)
    return ToolCall(
        agent=agent,
        session=session,
        tool=PATCH_TOOL,
        effect="delete" if only_deletes else "write",
        cwd=str(gate.workspace.root),
        call_id=call_id,
        paths=patch.paths,
        arguments_sha256=hash_arguments(to_builtins(patch)),
        checks_itself=True,
        patch_author=f"{patch.intent_id}/{patch.attempt}" if is_intent_id(patch.intent_id) else "",
    )


def judge_patch(gate: Gate, patch: ExchangedPatch, session: SessionKey, agent: str) -> None:
    """Raise PatchRejected if the session may not write these files. Raises RECORDING_ERRORS."""
    gathered = gather_facts(gate, build_call(gate, patch, session, agent, ""), gate.rules)
    decision = decide(gathered.call, gathered.facts)
    leading = decision.leading
    if leading is not None and decision.effect not in ("allow", "contain"):
        raise PatchRejected(make_refusal(patch, leading.code, leading.message, leading.path))


def make_refusal(patch: ExchangedPatch, code: ErrorType, message: str, path: str | None) -> PatchRejection:
    reason = REASONS_OF_CODES.get(code, "refused")
    return PatchRejection(path or patch.paths[0], reason, f"[{code}] {message}", action_hint="request_scope_expansion")


def apply_patch_to_workspace(
    gate: Gate, patch: ExchangedPatch, session: SessionKey, agent: str, call_id: str
) -> AppliedPatch:
    """Apply a patch as one call of a session: judged, written all or none, compared, recorded.

    Raises PatchRejected, RECORDING_ERRORS.
    """
    check_patch(gate, patch)

    def act(access: WorkspaceAccess) -> ToolOutput:
        contents = check_patch(gate, patch)  # the files may have changed while the call was judged
        access.write_contents(content.file for content in contents)
        merged = tuple(content.file.path for content in contents if content.is_merged)
        origin = f" of {patch.intent_id}/{patch.attempt}" if patch.intent_id else ""
        data: dict[str, Any] = {"patch": patch.sha256, "merged": list(merged)}
        return ToolOutput(True, f"applied a patch{origin} to {', '.join(patch.paths[:10])}", data)

    done = gate.perform(build_call(gate, patch, session, agent, call_id), act)
    if done.output is None:
        violation = done.violation
        if violation is None:
            raise PatchRejected(PatchRejection(patch.paths[0], "refused", "; ".join(done.messages)[:500]))
        path = violation.path if isinstance(violation.path, str) else None
        raise PatchRejected(make_refusal(patch, violation.error_type, violation.message, path))
    data: dict[str, Any] = done.output.data
    return AppliedPatch(patch.paths, tuple(data["merged"]), done.messages)
