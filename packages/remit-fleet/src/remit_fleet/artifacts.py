"""Artefacts of an attempt: plain files beside the attempt's commits, in a commit under a separate ref, for people on
other hosts.

`attempt.json` holds the facts of the attempt, `output.log` the output of the agent, `checks.txt` the output of the
criteria, `files/` the agent's files from $REMIT_ARTIFACTS. The landing adds the output of the landing's checks, under a
second ref. Secrets are masked. Transcripts stay on their host: `attempt.json` names the host and the sessions.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import MsgspecError, Struct, json
from msgspec.structs import replace

from remit.core.python_runtime import prepare_type
from remit.core.redaction import CUT_MARK, MASK, PRIVATE_KEY, compile_team_pattern, is_secret_file, redact_value
from remit.gate.context import RECORDING_ERRORS, WorkspaceContext
from remit.gate.intents.intents import record_body
from remit.workspace.merging import Identity, TreeStore
from remit.workspace.safe_files import read_regular_file
from remit.workspace.worktrees import ARTIFACT_REFS, ATTEMPT_NAME, attempt_name
from remit_fleet.board import Attempt
from remit_fleet.landing.checks import CheckResult
from remit_fleet.remote import RETENTION_S, SHARING_ERRORS, FleetRemote

ATTEMPT_FILE, OUTPUT_FILE, CHECKS_FILE, FILES_FOLDER = "attempt.json", "output.log", "checks.txt", "files"
LANDING_SUFFIX = "-landing"
ARTIFACT_REF = re.compile(rf"{ARTIFACT_REFS}/(?P<name>{ATTEMPT_NAME.pattern})(?:{LANDING_SUFFIX})?")
MAX_TEXT_BYTES = 256 << 10  # of one text: a longer one keeps its first quarter and its end
MAX_TOTAL_BYTES = 4 << 20
MAX_READ_BYTES = 8 << 20
MAX_FILES = 40
MAX_CHECKS = 50
WRITER = ("Remit", "remit@localhost")
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
PICTURE_HEAD = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF....WEBP", re.DOTALL)
"""First bytes of PNG, JPEG, GIF and WebP: not texts that a secret could be masked in, and kept as they are."""

KEY_BLOCK = re.compile(PRIVATE_KEY)


class AttemptFacts(Struct, frozen=True, omit_defaults=True):
    """An attempt as its worker saw its end. `why` is the end in words; `left` names what is not in the artefact."""

    attempt: Attempt
    plan: str = ""
    stage: int = 0
    host: str = ""
    why: str = ""
    left: Mapping[str, str] = {}


class ArtifactFile(Struct, frozen=True):
    """A file of an artefact. `attempt` is the attempt's name, like INT-014/7."""

    attempt: str
    name: str
    size: int
    ref: str


def keep_artifacts(context: WorkspaceContext, facts: AttemptFacts, output: Path, folder: Path, began: float) -> None:
    """Write and push the artefact of an attempt that began at a time. Raises nothing of git, files, ledger or remote:
    the attempt ends without, and a missed push is made up for by the next.
    """
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began))
    with suppress(*SHARING_ERRORS):
        ref = Artifacts(context).write_attempt(facts, output, folder, since)
        push_artifacts(context, (ref,))


def keep_landing(context: WorkspaceContext, names: Iterable[str], results: Sequence[CheckResult]) -> None:
    """Write and push what the checks of a landing printed, for each of its attempts. Raises as `keep_artifacts`."""
    if results:
        with suppress(*SHARING_ERRORS):
            push_artifacts(context, [Artifacts(context).write_landing(name, results) for name in names])


def push_artifacts(context: WorkspaceContext, refs: Iterable[str]) -> None:
    """Push the refs, and what an earlier push missed, to the remote if there is one. Raises SHARING_ERRORS."""
    if name := context.rules.config.orchestrator.remote:
        FleetRemote(context, name).push_artifacts(refs, context.environment.clock.now() - RETENTION_S)


class Artifacts:
    """The artefacts in a clone. Methods raise GitError."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.store = TreeStore(context.workspace)
        self.patterns = tuple(map(compile_team_pattern, context.rules.config.redact.patterns))

    # Writing

    def write_attempt(self, facts: AttemptFacts, output: Path, folder: Path, since: str) -> str:
        """Write the artefact of an attempt, and return its ref. `folder` holds what the agent gave, and is hostile;
        criteria count from the time `since`.
        """
        left: dict[str, str] = {}
        files: dict[str, bytes] = {}
        with suppress(FileNotFoundError):
            files[OUTPUT_FILE] = self.read_text(output, left)
        files[CHECKS_FILE] = self.mask(self.read_criteria(facts.attempt.intent, since))
        total = sum(map(len, files.values()))
        for name, content in self.take_files(folder, left):
            total += len(content)
            if total > MAX_TOTAL_BYTES:
                left[name] = f"it and what follows are more than {MAX_TOTAL_BYTES >> 20} MiB"
                break
            files[f"{FILES_FOLDER}/{name}"] = content
        known = redact_value(replace(facts, left=left), self.patterns)
        files[ATTEMPT_FILE] = json.format(json.encode(known))
        return self.write(attempt_name(facts.attempt.intent, facts.attempt.attempt), files)

    def write_landing(self, name: str, results: Iterable[CheckResult]) -> str:
        colours = {True: "green", False: "red"}
        shown = (f"{colours[one.is_green]} ({one.ms} ms): {one.command}\n{one.output}\n" for one in results)
        return self.write(f"{name}{LANDING_SUFFIX}", {CHECKS_FILE: self.mask("\n".join(shown))})

    def write(self, name: str, files: Mapping[str, bytes]) -> str:
        ref, who = f"{ARTIFACT_REFS}/{name}", Identity(*WRITER, int(self.context.environment.clock.now()))
        empty = self.store.git.run("mktree").decode("ascii").strip()
        present = {path: content for path, content in files.items() if content}
        self.store.commit_files(ref, empty, (), f"Artefacts of {name}", who, who, present)
        return ref

    def read_text(self, path: Path, left: dict[str, str]) -> bytes:
        """Return a file as masked text, within the limit. Raises OSError."""
        content = read_regular_file(path, MAX_READ_BYTES)
        if len(content) > MAX_TEXT_BYTES:
            left[path.name] = f"{len(content)} bytes: {MAX_TEXT_BYTES} of its beginning and its end are here"
        return self.mask(content.decode("utf-8", "replace"))

    def mask(self, text: str) -> bytes:
        """Mask secrets, and keep beginning and end of a longer text."""
        # Keys of several lines first: after a cut, nothing would tell what the rest of one is.
        text = KEY_BLOCK.sub(MASK, text)
        if len(text) > MAX_TEXT_BYTES:
            head, tail = text[: MAX_TEXT_BYTES // 4], text[-MAX_TEXT_BYTES * 3 // 4 :]
            text = f"{head.rpartition(chr(10))[0]}\n{CUT_MARK.strip()}\n{tail.partition(chr(10))[2]}"
        # By line: in a long text the patterns would be slow.
        lines = (str(redact_value(line, self.patterns)) for line in text.split("\n"))
        return "\n".join(lines).encode("utf-8", "replace")[: 2 * MAX_TEXT_BYTES]

    def take_files(self, folder: Path, left: dict[str, str]) -> Iterator[tuple[str, bytes]]:
        if not folder.is_dir() or folder.resolve() != folder:
            return  # a link of the agent's would lead to files that it cannot read itself
        names = sorted(os.listdir(folder))[: 10 * MAX_FILES]  # noqa: PTH208  names only: no entry is trusted
        for number, name in enumerate(names):
            try:
                if number >= MAX_FILES or not SAFE_NAME.fullmatch(name) or is_secret_file(name):
                    left[name] = f"only {MAX_FILES} files with plain names that suggest no secrets are taken"
                elif PICTURE_HEAD.match(content := read_regular_file(folder / name, MAX_TOTAL_BYTES)):
                    yield name, content
                elif b"\0" in content:
                    left[name] = "it is neither a text nor a picture (PNG, JPEG, GIF, WebP)"
                else:
                    yield name, self.read_text(folder / name, left)
            except OSError as error:
                left[name] = str(error.strerror or error)

    def read_criteria(self, intent: str, since: str) -> str:
        """Return what commands printed that verified the intent since a time, the oldest first."""
        with suppress(*RECORDING_ERRORS), self.context.index() as index:
            found = index.find(event="verification", intent_id=intent, since=since, limit=MAX_CHECKS)
            bodies = map(record_body, reversed(found))
            shown = (f"exit code {b.get('exit_code')}: {b.get('command')}\n{b.get('output')}\n" for b in bodies)
            return "\n".join(shown)
        return ""

    # Reading

    def list_refs(self, intent: str = "*") -> dict[str, str]:
        """Return the commit of each artefact, by its ref."""
        form = "--format=%(refname) %(objectname)"
        listed = self.store.git.text("for-each-ref", form, "--sort=v:refname", f"{ARTIFACT_REFS}/{intent}/*")
        rows = (line.partition(" ") for line in listed.splitlines())
        return {ref: commit for ref, _, commit in rows if ARTIFACT_REF.fullmatch(ref)}

    def list_files(self, intent: str) -> list[ArtifactFile]:
        found: list[ArtifactFile] = []
        for ref, commit in self.list_refs(intent).items():
            out = self.store.git.run("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
            rows = (row.partition("\t") for row in out.decode("utf-8", "replace").split("\0") if row)
            named = ARTIFACT_REF.fullmatch(ref)
            attempt = named["name"] if named else ""
            found += [
                ArtifactFile(attempt, path, int(about.split()[3]), ref)
                for about, _, path in rows
                if about.split()[1] == "blob" and int(about.split()[3]) <= MAX_READ_BYTES
            ]
        return found

    def read_file(self, file: ArtifactFile) -> bytes:
        return self.store.read_files(file.ref, [file.name]).get(file.name) or b""

    def read_facts(self, intent: str = "*") -> Iterator[AttemptFacts]:
        """Yield what the artefacts say of attempts; what is unreadable, or names another attempt, is passed over."""
        for file in self.list_files(intent):
            with suppress(MsgspecError, UnicodeDecodeError):
                if file.name == ATTEMPT_FILE:
                    facts = json.decode(self.read_file(file), type=prepare_type(AttemptFacts))
                    if file.ref == f"{ARTIFACT_REFS}/{facts.attempt.intent}/{facts.attempt.attempt}":
                        yield facts
