"""Making records and getting them into the log: durably before an answer, and never lost after a deed."""

import os
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import UNSET, UnsetType

from remit.core.contents import sha256
from remit.core.identifiers import uuid7
from remit.core.once import Once
from remit.core.record import Body, Record, Tool, TracedFile, Vcs
from remit.core.redaction import compile_pattern, redact_struct, redact_value
from remit.gate.environment import Environment
from remit.gate.governing import governing
from remit.gate.portions import portions
from remit.gate.witness import after_append
from remit.ledger.log import Appended, MachineLog
from remit.ledger.segments import LedgerError
from remit.ledger.spool import Spool
from remit.workspace.git import GitError
from remit.workspace.head import head_commit
from remit.workspace.identity import machine_id, repository_id
from remit.workspace.place import Workspace, is_folder

SPOOL = ".local/state/remit/spool"


class Recorder:
    """Writes the records of one workspace."""

    def __init__(self, workspace: Workspace, environment: Environment) -> None:
        self.workspace = workspace
        self.environment = environment
        self.patterns: tuple[str, ...] | None = None
        """A team's own patterns of secrets, as they were when the rules were last read."""

    @Once
    def machine(self) -> str:
        """This machine's name. Raises OSError."""
        return machine_id(self.environment.home)

    @Once
    def repository(self) -> str:
        """The repository's name. Raises OSError."""
        return repository_id(self.workspace)

    @property
    def log(self) -> MachineLog:
        """The machine log. Raises OSError where machine or repository have no name and none can be written."""
        return self._opened_log

    @Once
    def _opened_log(self) -> MachineLog:
        name = f"{self.repository}/{self.machine}"
        return MachineLog.open(self.workspace.log_folder, name, make_recovery=self.recovery)

    def close(self) -> None:
        """Let go of the log."""
        log = self.__dict__.get("_opened_log")
        if isinstance(log, MachineLog):
            log.close()

    @Once
    def spool(self) -> Spool:
        """Where records wait that could not be appended."""
        name = self.workspace.root.name + "-" + str(hash_of(str(self.workspace.root)))
        return Spool(self.environment.home / SPOOL / f"{name}.jsonl")

    @property
    def vcs(self) -> Vcs | None:
        """HEAD now; None before the first commit, or where git cannot tell."""
        head = head_commit(self.workspace)
        return Vcs(type="git", revision=head, revision_id=head) if head else None

    def record(
        self,
        body: Body,
        agent: str | None = None,
        files: tuple[TracedFile, ...] = (),
        *,
        vcs: Vcs | UnsetType | None = UNSET,
    ) -> Record:
        """A record of now. Here, and only here, secrets are taken out of it, whatever field they stand in.

        `vcs` is HEAD, where the caller has looked already.
        """
        now = self.environment.clock()
        if self.patterns is None:
            self.patterns = governing(self.workspace).config.redact.patterns
        extra = tuple(map(compile_pattern, self.patterns))
        return Record(
            id=uuid7(int(now * 1000), os.urandom(10)),
            timestamp=datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            body=redact_struct(body, extra),
            vcs=self.vcs if vcs is UNSET else vcs,
            tool=Tool(name=redact_value(agent, extra)) if agent else None,
            files=redact_value(files, extra),
        )

    def recovery(self, detail: dict[str, Any]) -> Record:
        """The record of a repair of the log."""
        return self.record(Body(event="recovery", intent_id=None, session_id=None, detail=detail))

    def append(self, records: Sequence[Record], *, sync: bool = True) -> tuple[Appended, ...]:
        """Append, durably when `sync`. What waits in the spool goes first.

        Raises OSError, LedgerError: then nothing of this is in the log.
        """
        if self.spool.pending():
            self.spool.drain(self.log, views=self.views)
        return self.log.append(portions(records), sync=sync, views=self.views)

    @property
    def views(self) -> tuple[Path, ...]:
        """The live view, where the workspace has its folder."""
        return (self.workspace.view_path,) if is_folder(self.workspace.folder) else ()

    def append_or_spool(self, records: Sequence[Record], *, sync: bool = True) -> str | None:
        """Append what already happened; what cannot be appended waits in the spool.

        The reason in words where it had to wait; raises OSError where even that failed. No decision waits for this,
        so tree heads are made here when they are due.
        """
        try:
            appended = self.append(records, sync=sync)
        except (OSError, LedgerError, GitError) as error:
            self.spool.put(portions(records))
            return str(error)
        if appended:
            self.head_due(records, appended[-1].seq)
        return None

    def head_due(self, records: Sequence[Record], newest_seq: int) -> None:
        """Sign the log where it is time. One that cannot be signed now is signed the next time: nothing is lost."""
        with suppress(OSError, LedgerError, GitError):
            after_append(self, records, newest_seq)


def hash_of(text: str) -> int:
    """A short number for a path, the same in every process."""
    return int(sha256(text.encode("utf-8", "surrogateescape"))[:12], 16)
