"""Checks of every log in a repository: the machine's own log, imported logs, and tracked logs in the worktree. The
pruning of old records stands on what the check found, and is announced by a record of its own. A damaged tracked log is
read up to the damage; the machine's ledger does not depend on it. Everything raises OSError, LedgerError, GitError,
InvalidKey.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from remit.core.config import Config
from remit.core.record import Body, hash_leaf
from remit.core.untrusted_input import sanitise_line
from remit.gate.records.recorder import Recorder
from remit.gate.records.tree_heads import LogWriter, heads_report, make_head, tracked_log_name, trusted_keys
from remit.ledger import retention, tree_heads
from remit.ledger.findings import LedgerFinding, build_acknowledgement, read_acknowledgements, soften_acknowledged
from remit.ledger.foreign_logs import check_foreign_logs
from remit.ledger.index import INDEX_FILE
from remit.ledger.index.index import remove_index
from remit.ledger.log_files import ChainView, LocalLog, decode_header, is_readable, list_local_logs, list_local_names
from remit.ledger.reader import read_lines
from remit.ledger.verify_log import verify_log
from remit.workspace.git.repository import list_existing_paths
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER
from remit.workspace.sharing import tracked_logs


class LedgerReport(Struct, frozen=True):
    """Findings about the logs. `chain_findings` concern the chain of the machine's own log."""

    findings: tuple[LedgerFinding, ...]
    chain_findings: tuple[LedgerFinding, ...]
    heads: tree_heads.HeadsReport

    @property
    def errors(self) -> list[LedgerFinding]:
        return [finding for finding in self.findings if finding.severity == "error"]


def check_ledger(recorder: LogWriter, config: Config) -> LedgerReport:
    """Verify every local log."""
    own = recorder.log
    heads = heads_report(recorder, config)
    known = {**read_acknowledgements(own.folder, heads.witnessed)}
    others: list[LedgerFinding] = []
    mistaken: set[str] = set()
    keys = trusted_keys(recorder.environment.home, config)
    asked = [finding.about for finding in heads.findings if finding.about]
    for log in list_local_logs(own.root):
        if log.folder == own.folder:
            continue
        others += (replace(finding, log=log.name) for finding in check_other_log(log, keys))
        if is_readable(log.folder):
            # Acknowledgements of another log about itself are evidence like its records, proved or not.
            known |= {key: at for key, at in read_acknowledgements(log.folder).items() if key[0] == log.name}
            # Older versions signed heads in the machine's own name over an imported log.
            mistaken |= (
                tree_heads.find_confirmed_heads(tree_heads.read_leaves(log.folder), asked) if asked else frozenset()
            )
    broken = soften_acknowledged(verify_log(own.folder, own.name), own.name, known)
    signed = (finding for finding in heads.findings if finding.about not in mistaken)
    findings = soften_acknowledged([*signed, *others], own.name, known)
    return LedgerReport((*broken, *findings), tuple(broken), heads)


def count_proved_records(recorder: LogWriter, config: Config) -> dict[str, int]:
    """Return, by imported log, the number of records vouched for by a trusted key."""
    keys = trusted_keys(recorder.environment.home, config) if config.ledger.trusted_keys else ()
    own = recorder.log
    others = [log for log in list_local_logs(own.root) if log.folder != own.folder and is_readable(log.folder)]
    return {log.name: check_log_heads(log, keys).witnessed if keys else 0 for log in others}


def check_log_heads(log: LocalLog, keys: Sequence[bytes]) -> tree_heads.HeadsReport:
    found = [*tree_heads.read_stored_heads(log.folder), *tree_heads.read_recorded_heads(read_lines(log.folder))]
    return tree_heads.check_heads(tree_heads.read_leaves(log.folder), found, log.name, keys)


def check_other_log(log: LocalLog, keys: Sequence[bytes]) -> Iterator[LedgerFinding]:
    if not is_readable(log.folder):
        text = f"the log {log.name!r} in {log.place!r} cannot be read by this user: its records are not shown"
        yield LedgerFinding("unreadable", "warning", text)
        return
    for finding in verify_log(log.folder, log.name):
        yield replace(finding, message=f"the log {log.name!r}: {finding.message}")
    heads = check_log_heads(log, keys)
    count = sum(1 for _ in tree_heads.read_leaves(log.folder))
    # The newest head does not cover its own record.
    yield from (f for f in heads.findings if f.code not in ("unproved", "head_unreadable"))
    if heads.witnessed < count - 1 or not heads.witnessed:
        proved = f"only its first {heads.witnessed} records are" if heads.witnessed else "none of its records is"
        text = (
            f"the log {log.name!r} is another machine's, and {proved} signed by a key that is trusted here: the rest "
            "are evidence, `unproved`. `remit ledger key` there prints the key for `[ledger] trusted_keys`"
        )
        yield LedgerFinding("unproved", "warning", text)


def describe_shared_logs(recorder: LogWriter, config: Config) -> list[str]:
    """Return for each log that another machine shared as a ref which key signed it, and whether that is trusted."""
    keys, root = trusted_keys(recorder.environment.home, config), recorder.log.root
    lines: list[str] = []
    for log in check_foreign_logs(root, list_local_names(root, recorder.log.name), keys):
        signers = " and ".join(log.heads.signers[-MAX_NAMED_KEYS:]) or "no key"
        of = f"{log.records} records of the log {sanitise_line(log.name, 120)} are another machine's"
        if wrong := next((one for one in log.heads.findings if one.severity == "error"), None):
            lines.append(f"{of}, and not as they were signed: {wrong.message}")
        elif log.heads.witnessed and log.heads.witnessed >= log.records - 1:  # the newest head's own record is after it
            lines.append(f"{of}, signed by {signers}, which is trusted here")
        else:
            proved = f"the first {log.heads.witnessed} are proved, the rest is" if log.heads.witnessed else "they are"
            key = "`remit ledger key` there prints the key for `[ledger] trusted_keys`"
            lines.append(f"{of}, and {proved} unproved: signed by {signers}, which is not trusted here; {key}")
    return lines


def acknowledge_findings(recorder: LogWriter, findings: Sequence[LedgerFinding]) -> None:
    recorder.log.append(
        [recorder.recovery_record(build_acknowledgement(recorder.log.name, findings))], views=recorder.views
    )
    make_head(recorder, whole=True)


# Tracked logs

MAX_NAMED_KEYS = 3
MAX_NAMED_LINES = 5
OWN_LOG_STEP = "`remit ledger push` writes it anew from the ledger"
ALTERED_LOG_STEP = (
    "where `remit ledger verify` finds the ledger whole, delete the file, and `remit ledger push` writes it anew"
)
MERGE_STEP = "`remit ledger push --stage` settles it, then go on with the merge or rebase"
OTHER_LOG_STEP = (
    "its own machine writes it anew with `remit ledger push`, "
    f"and `git log -- {TRACKED_LOGS_FOLDER}` has earlier versions"
)


def find_tracked_log_faults(recorder: Recorder) -> list[LedgerFinding]:
    """Return warnings about each tracked log."""
    workspace = recorder.workspace
    if workspace.common_dir is None:
        return []
    if why := tracked_logs.folder_unreadable_reason(workspace.tracked_logs):
        return [tracked_log_finding("", f"nothing there is read: {why}; a folder belongs there")]
    logs, here = tracked_logs.TrackedLogs(workspace), tracked_logs.list_log_names(workspace.tracked_logs)
    names = sorted({*here, *logs.list_committed_names()})
    own, sides = tracked_log_name(recorder.log) if names else None, logs.read_merge_sides() if names else {}
    readable = {path.name for path in tracked_logs.list_readable_logs(workspace.tracked_logs)}
    unread = [
        name for name in here if name not in readable and tracked_logs.unreadable_reason(logs.log_path(name)) is None
    ]
    bounds = (
        f"logs are more than {tracked_logs.MAX_LOG_FILES}, or {tracked_logs.MAX_TOTAL_LOG_BYTES >> 20} MiB together"
    )
    why = f"it and what follows is not read: {bounds}; take out those that nobody needs"
    return [tracked_log_finding(f"/{name}", why) for name in unread[:1]] + [
        tracked_log_finding(f"/{name}", f"{what}; {step}")
        for name in names
        for what, step in check_tracked_log(recorder, logs, name, own=name == own, unsettled=name in sides)
    ]


def tracked_log_finding(place: str, text: str) -> LedgerFinding:
    return LedgerFinding("tracked_damaged", "warning", f"{TRACKED_LOGS_FOLDER}{place}: {text}")


def check_tracked_log(
    recorder: Recorder, logs: tracked_logs.TrackedLogs, name: str, *, own: bool, unsettled: bool
) -> Iterator[tuple[str, str]]:
    step = MERGE_STEP if unsettled else OWN_LOG_STEP if own else OTHER_LOG_STEP
    content, committed = logs.read_present(name), logs.read_head_version(name)
    back = step
    if not own:
        back = "delete it" if committed is None else f"`git checkout HEAD -- {TRACKED_LOGS_FOLDER}/{name}`"
    if content is None:
        yield f"it is not read: {tracked_logs.unreadable_reason(logs.log_path(name))}", back
        return
    if own:
        known = set(tree_heads.read_leaves(recorder.log.folder))
        lines = number_lines(content)
        foreign = [number for number, raw, chain in lines if chain is not None and hash_leaf(raw) not in known]
        if foreign:
            yield f"{format_line_numbers(foreign)} not in this machine's ledger", ALTERED_LOG_STEP
            return
    if unsettled:
        yield "a merge left two versions of it", step
    elif committed is not None and not content.startswith(committed):
        yield "it does not continue what HEAD has", back
    yield from ((what, step) for what in check_content(content))


def check_content(content: bytes) -> Iterator[str]:
    lines = list(number_lines(content))
    if junk := [number for number, _, chain in lines if chain is None]:
        yield f"{format_line_numbers(junk)} no record of a log"
    records = [(number, raw, chain) for number, raw, chain in lines if chain is not None]
    altered = [
        number
        for (number, raw, chain), (_, _, after) in pairwise(records)
        if after.seq <= chain.seq or (after.seq == chain.seq + 1 and after.prev != f"sha256:{hash_leaf(raw).hex()}")
    ]
    if altered:
        yield f"{format_line_numbers(altered)} not what the line after it continues"


def number_lines(content: bytes) -> Iterator[tuple[int, bytes, ChainView | None]]:
    seen: set[bytes] = set()
    for number, line in enumerate(content.split(b"\n"), 1):
        raw = line.removesuffix(b"\r")
        if raw and raw not in seen:
            seen.add(raw)
            header = decode_header(raw)
            yield number, raw, header.chain if header else None


def format_line_numbers(numbers: Sequence[int]) -> str:
    """Return line numbers followed by a verb: `line 3 is`, `lines 3, 4 are`."""
    few = ", ".join(map(str, numbers[:MAX_NAMED_LINES]))
    more = f" and {len(numbers) - MAX_NAMED_LINES} more" if len(numbers) > MAX_NAMED_LINES else ""
    return f"line {few} is" if len(numbers) == 1 else f"lines {few}{more} are"


# Pruning


class LedgerPruning(Struct, frozen=True):
    """Prunable records older than `before`; `newest` is the tree head that covers them."""

    before: str
    plan: retention.PruningPlan
    newest: str
    all_records: bool


def plan_log_pruning(recorder: Recorder, config: Config, before: str, *, all_records: bool) -> LedgerPruning:
    """Return the prunable records older than `before`, in the time format of records. Raises OSError, LedgerError,
    GitError, InvalidKey.
    """
    folder = recorder.log.folder
    report = check_ledger(recorder, config)
    heads = report.heads
    standing = None if all_records else list_existing_paths(recorder.workspace)
    plan = retention.plan_pruning(
        folder,
        before,
        heads.witnessed,
        [f for f in report.findings if not f.log],
        retention.build_keep_rule(folder, standing),
    )
    return LedgerPruning(before, plan, heads.newest, all_records)


def prune_log(recorder: Recorder, found: LedgerPruning) -> int:
    """Record the pruning, delete the records, drop the index for a rebuild, and return the freed bytes. Raises OSError,
    LedgerError.
    """
    folder = recorder.log.folder
    told = {"before": found.before, "all": found.all_records, "head": found.newest}
    detail = retention.build_pruning_detail(found.plan, retention.read_pruned_ranges(folder), **told)
    recorder.append([recorder.make_record(Body(event="pruned", intent_id=None, session_id=None, detail=detail))])
    freed = retention.prune(folder, found.plan)
    remove_index(recorder.workspace.state / INDEX_FILE)
    return freed
