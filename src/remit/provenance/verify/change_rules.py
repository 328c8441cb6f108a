"""Rules on a change: author, path, intent and approval, and the policy of the commit at the start of a range.

A `remit.toml` or intents file brought by a range must not loosen the range's verdict.
"""

import re
from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.agents import ROWS
from remit.core.code.manifests import find_reader
from remit.core.config import Config
from remit.core.intent import Intent
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import escape_surrogates, sanitise_line, unquote_path
from remit.ledger.index.index import Index
from remit.provenance.blame.blamed_line import body_of
from remit.provenance.verify.range_evidence import NotedLine
from remit.provenance.verify.rules import Document, RuleFinding, make_finding
from remit.workspace.git.command import Git
from remit.workspace.place.config import ConfigError, decode_toml
from remit.workspace.place.resolve_paths import STEERS_AGENT, inside_protection_reason
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

GIT_ABSENT = 128  # exit code of git for a file missing from a commit


class BasePolicy(Struct, frozen=True):
    """Policy files at `commit`, which is empty if the range starts at no commit. `config` and `intents` are None if the
    base does not track the file. `brings` names files that only the range tracks.
    """

    commit: str = ""
    config: Config | None = None
    config_text: str | None = None
    config_error: str | None = None
    intents: Mapping[str, Intent] | None = None
    brings: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"the base {self.commit[:12]}" if self.commit else "the intents file"


def read_base_policy(git: Git, wanted: str, base: str | None) -> BasePolicy:
    """Read the policy at `base`, else at the start of the range `wanted`. Raises GitError."""
    tip, start = resolve_range(git, wanted)
    commit = start if base is None else git.text("rev-parse", "--verify", "--end-of-options", f"{base}^{{commit}}")
    # Imported here for start-up speed: loads a YAML parser.
    from remit.workspace.intents_file.committed import parse_committed_files, read_committed_files

    config_bytes = read_tracked_file(git, commit, "remit.toml")
    declared, tips = (
        read_committed_files(git, name, git.text("rev-parse", "--show-prefix")) if name else {}
        for name in (commit, tip)
    )
    brings = ["remit.toml"] if config_bytes is None and read_tracked_file(git, tip, "remit.toml") is not None else []
    brings += [min(tips).rpartition(f"{ORCHESTRATION_FOLDER}/")[2]] if tips and not declared else []
    config, config_text, error, intents = None, None, None, None
    if config_bytes is not None:
        config_text = config_bytes.decode("utf-8", "replace")
        try:
            config = decode_toml(config_bytes, Config)
        except ConfigError as invalid:
            error = f"{ORCHESTRATION_FOLDER}/remit.toml of the base cannot be used: {invalid}"
    if declared:
        intents = {intent.id: intent for intent in parse_committed_files(declared).intents}
    return BasePolicy(commit, config, config_text, error, intents, tuple(brings))


def resolve_range(git: Git, wanted: str) -> tuple[str, str]:
    """Return the tip of a range, and its merge base or a commit's parent; empty if missing. Raises GitError."""
    names = git.text("rev-parse", "--revs-only", "--end-of-options", wanted).split()
    tips = [name for name in names if not name.startswith("^")]
    excluded = [name[1:] for name in names if name.startswith("^")]
    if not tips:
        return "", ""
    if not excluded:
        return tips[0], git.text("rev-parse", "--verify", "--quiet", f"{tips[0]}^", ok=(0, 1, 128))
    return tips[0], git.text("merge-base", excluded[0], tips[0], ok=(0, 1))


def read_tracked_file(git: Git, commit: str, name: str) -> bytes | None:
    """Return the policy file of a commit; None if not tracked. Raises GitError."""
    if not commit:
        return None
    listed = git.text("ls-tree", commit, "--", f"{ORCHESTRATION_FOLDER}/{name}")
    return git.run("cat-file", "blob", listed.split()[2]) if " blob " in listed else None


AGENT_SETTINGS = tuple(
    dict.fromkeys(name for row in ROWS.values() for name in (*row.settings_files, row.hooks_file, row.mcp_file) if name)
)
"""Files in a repository where agents keep their settings."""

LOCK_FILES = re.compile(
    r"(?:cargo|composer|flake|gemfile|mix|pdm|pipfile|podfile|poetry|pubspec|uv|yarn|deno|bun)\.lock|go(?:\.work)?\.sum"
    r"|gradle\.lockfile|npm-shrinkwrap\.json|package-lock\.json|packages\.lock\.json|pnpm-lock\.yaml|pylock(?:\.\w+)?\.toml"
    r"|bun\.lockb"
)
OTHER_MANIFESTS = re.compile(
    r"build\.gradle(?:\.kts)?|composer\.json|gemfile|libs\.versions\.toml|mix\.exs|package\.swift|pom\.xml|pubspec\.yaml"
    r"|directory\.packages\.props|\w+\.csproj"
)
"""Manifests from which Remit reads no requirements."""

AnnouncedPaths: TypeAlias = dict[str, tuple[list[str], list[tuple[str, ...]]]]


def read_announcements(index: Index) -> AnnouncedPaths:
    announced: AnnouncedPaths = {}
    for document in index.iterate_records(event="intent_selected"):
        body = body_of(document)
        times, expected = announced.setdefault(str(body.get("session_id")), ([], []))
        times.append(str(document["timestamp"]))
        expected.append(tuple(map(str, body.get("expected_mutations", []))))
    return announced


def check_change(
    document: Document,
    scope: Scope | None,
    selections: AnnouncedPaths,
    undone: Container[tuple[str, str]],
    base: BasePolicy | None = None,
) -> Iterator[RuleFinding]:
    """Yield the findings on one change. Findings on a file that was undone after the call are notes. `scope` was in
    force at the time; with a `base`, the base's intents have to allow the change as well.
    """
    body = body_of(document)
    about = {"record": str(document["id"]), "intent_id": body.get("intent_id")}
    who, call = document.get("tool", {}).get("name", "an agent"), str(body.get("call", {}).get("id", ""))
    times, expected = selections.get(str(body.get("session_id")), ([], []))
    selected = bisect_right(times, str(document["timestamp"]))
    announced = expected[selected - 1] if selected else ()
    for file in body.get("files", []):
        is_undone = (call, str(file["path"])) in undone
        did = f"changed while {who} ran a command" if file.get("unproved") else f"written by {who}"
        did += ", and undone" if is_undone else ""
        findings = check_file(file, body, scope, announced, did, about, base)
        # Without a call id, the undone call may be a different one.
        yield from (replace(f, severity="note") for f in findings) if is_undone and call else findings
    yield from check_decision(body.get("decision", {}), body, about)


def check_file(
    file: Document,
    body: Document,
    scope: Scope | None,
    announced: tuple[str, ...],
    did: str,
    about: Mapping[str, Any],
    base: BasePolicy | None = None,
) -> Iterator[RuleFinding]:
    path, intent = str(file["path"]), body.get("intent_id")
    # A person approved a change of exactly these files: the call named them, and the approval settled every finding.
    decision: Document = body.get("decision", {})
    approval = decision.get("grant") or decision.get("approved_by")
    is_settled = decision.get("verdict") in ("allow", "contain") and body.get("covered") is True
    is_approved = bool(approval) and is_settled
    # The recorded form is quoted as by git if not UTF-8.
    unquoted = unquote_path(path.encode())
    name = path if escape_surrogates(unquoted) == unquoted else unquoted

    def find(rule: str, message: str) -> RuleFinding:
        return make_finding(rule, message, path=path, **about)

    if why := inside_protection_reason(name, AGENT_SETTINGS):
        yield find("RMT009" if why == STEERS_AGENT else "RMT004", f"{did}; {why}")
    elif intent is None and not is_approved:
        yield find("RMT002", f"{did} under no intent")
    elif intent is not None and not is_approved:
        is_within = scope.matches(name) if scope else bool(file.get("in_scope", body.get("in_scope", True)))
        known = base.intents.get(str(intent)) if base and base.intents is not None else None
        if not is_within:
            said = ", and recorded as within" if file.get("in_scope", body.get("in_scope")) else ""
            yield find("RMT001", f"{did} outside {intent}{describe_scope(scope)}{said}")
        elif base is None or base.intents is None:
            pass
        elif known is None:
            yield find("RMT002", f"{did} under {intent}, which {base.title} does not have")
        elif not (own := Scope(known.owned_scope)).matches(name):
            scopes = f"{intent}{describe_scope(own)} of {base.title}"
            yield find("RMT001", f"{did} outside {scopes}; the range itself widens that scope")
    if announced and not Scope(announced).matches(name):
        yield find("RMT015", f"not among what the session announced: {', '.join(announced[:5])}")
    if is_dependency_file(path):
        yield find("RMT010", f"a file of dependencies, {did}")
    if body.get("covered") is False:
        yield find("RMT003", f"{did}, and no verdict came before it")


def is_dependency_file(path: str) -> bool:
    name = path.rpartition("/")[2].casefold()
    is_known = LOCK_FILES.fullmatch(name) or OTHER_MANIFESTS.fullmatch(name)
    return is_known is not None or find_reader(name, path.casefold()) is not None


def check_noted_line(noted: NotedLine, policy: BasePolicy) -> Iterator[RuleFinding]:
    """Yield the findings on a change known only from a note or an imported record."""
    intent = noted.author.attributes.get("remit.intent")
    known = (policy.intents or {}).get(intent or "")
    who = sanitise_line(noted.author.tool or "an agent", 60)
    about = {"line": noted.line, "commit": noted.commit, "intent_id": intent and sanitise_line(intent, 60)}
    scope = Scope(known.owned_scope) if known else None
    body: Document = {"intent_id": about["intent_id"]}
    did = f"written by {who}, as a note says,"
    yield from check_file({"path": noted.path}, body, scope, (), did, about, policy)


def describe_scope(scope: Scope | None) -> str:
    return f" ({', '.join(scope.patterns[:5])})" if scope else ""


def check_decision(decision: Document, body: Document, about: Mapping[str, Any]) -> Iterator[RuleFinding]:
    path = next((str(file["path"]) for file in body.get("files", [])), "")
    if by := decision.get("grant") or decision.get("approved_by"):
        message = f"let through by {decision.get('approved_by') or 'person'}: {by}"
        yield make_finding("RMT012", message, path=path, **about)
    classes: Document = body.get("mutation_class", {})
    declared, computed = classes.get("declared"), classes.get("computed")
    if declared and computed and declared != computed and "AST_REFACTOR" in (declared, computed):
        yield make_finding("RMT014", f"declared {declared}, computed {computed}", path=path, **about)
