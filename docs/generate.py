"""Write the reference pages from the code: `python docs/generate.py`; with `--check`, only compare.

What the code says of itself (options, fields, defaults, codes, docstrings) is taken from it. What it does not say
stands in the tables of words below; a code or field without words, or words for one that is gone, ends the run.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
from architecture import draw_architecture
from msgspec import UNSET, Struct

from remit.cli import output
from remit.cli.root import remit
from remit.console.remote.settings import RemoteSettings
from remit.core import config, record
from remit.core.adoption import AdoptSettings
from remit.core.agents import ROWS
from remit.core.call import REMIT_COMMANDS
from remit.core.decision import EXAMPLES, HINTS, MEANINGS, NOT_RECOVERABLE, REASONS, SHELL_FORMS, ErrorType
from remit.core.intent import STATUS_ALIASES, TRANSITIONS, Intent, LintCode
from remit.core.intents.constraints import CONSTRAINT_KINDS
from remit.core.machine_paths import CONFIG_PATH
from remit.policy.decide import CHECKS
from remit.provenance.verify.rules import INTEGRITY_RULES, RULES
from remit.tools.catalogue import TOOLS

DOCS = Path(__file__).parent
TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)
SOURCES = (DOCS.parent / "src" / "remit", *sorted(DOCS.parent.glob("packages/*/src/*")))
NOTICE = "<!-- Written by docs/generate.py; change the code or that script, then run it. -->"

EXIT_CODES = {
    "0": "fine",
    str(output.FINDINGS): "findings: the command worked, and found errors in what it looked at",
    str(output.USAGE): "usage or configuration",
    str(output.REFUSED): "refused by the rules, or a person's to run and asked for by an agent",
    str(output.UNAVAILABLE): "disk, database, git or a lock is not available",
    str(output.INTEGRITY): "the ledger is not whole",
}

INTENT_WORDS = {
    "id": "two to eight capital letters, a hyphen, at least three digits",
    "owned_scope": "patterns of its files, at least one; see [how to write intents](../how-to/write-intents.md)",
    "name": "at most 200 characters; the id where there is none",
    "description": "what it is about; shown to the agent",
    "status": "see [its life](#its-life)",
    "priority": "for people; decides nothing",
    "owner": "for people; decides nothing",
    "constraints": "text is guidance, shown to the agent; a mapping with a `type` is enforced:"
    " see [its kinds](#structured-constraints)",
    "acceptance_criteria": "text, or a mapping of `text` and `verify`; the command runs before the intent is completed,"
    " once [trusted](../how-to/add-hooks.md)",
    "companions": "in force: file tools may also write the tests and pages that mirror what it owns",
    "network": "with `none`, commands that run [contained](../how-to/run-contained.md) have no network",
    "dependencies": "ids of intents that should be finished first; unfinished ones warn",
    "parent_intent": "the id of the intent that this is a part of; no scope is inherited",
    "references": "paths and addresses to read",
    "blocked_reason": "why it is BLOCKED or ABORTED; shown to agents that work under it, or would",
    "created_at": "ISO 8601 with `Z` or an offset",
    "updated_at": "set by Remit whenever it writes the intent into a list; a file of one intent has none",
    "source": "what the intent came from: `request`, `by`, `url`",
    "uid": "the hidden name of the intent; written only where it no longer follows from id and `created_at`",
    "formerly": "the ids that it had before",
}

SETTING_WORDS = {
    "mode": "`observe` records calls and refuses none, `warn` also tells the agent what enforce would refuse,"
    " `enforce` refuses. `remit mode` writes it",
    "share.notes": "write who wrote which lines into git notes, which `remit notes sync` pushes;"
    " see [sharing attribution](../how-to/share-attribution.md)",
    "share.log": "share the ledger: `ref` as the git ref `refs/remit/log/<machine>`, `tree` as a tracked file below"
    " `.orchestration/log/`, of which each commit keeps a part; see"
    " [sharing the ledger](../how-to/share-the-ledger.md)",
    "ledger.witness": "a place outside this machine that keeps signed tree heads",
    "ledger.trusted_keys": "public keys of machines whose shared ledgers count as proved; those of others count as"
    " `unproved`",
    "redact.patterns": "regular expressions of your own secrets: what they match is masked before a record is written",
    "session.idle_minutes": "minutes after which a call that never came back counts as ended, and what it changed is"
    " recorded",
    "session.lease_s": "seconds that a call under way keeps other sessions from writing the same path",
    "session.detour_minutes": "minutes in which a path that was refused to a session stays refused by any other tool",
    "intents.write_back": "the statuses that Remit writes into the files of intents: with `closing` only that one ended"
    " or is blocked, with `all` each, with `never` none; what is not written stands in the ledger",
    "intents.layout": "where a new intent goes: `files` gives it a file of its own, `list` puts it into"
    " `active_intents.yaml`, `auto` keeps to a list that is there",
    "intents.ids": "how a new intent is numbered: `count` takes the next number, `random` six digits that nobody of"
    " this clone has; `auto` counts as long as the repository has no remote",
    "approvals.threshold": "a risk from 0 to 100: from it on a call needs a person's yes even where every rule allows"
    " it; see [answering questions](../how-to/answer-questions.md)",
    "approvals.timeout_s": "seconds that a question waits for an answer; by default the agent's own time limit less 5",
    "approvals.grant_hours": "hours that a yes for an intent lasts at most",
    "overrides": "the violations that a person may waive",
    "intents.auto_select": "how a session without a selection gets its intent: `bound` by a binding of a person, "
    "`REMIT_INTENT` or the branch's name; `single` also takes the one open intent",
    "lessons.file": "the file that lessons are written to: `AGENT.md` in `.orchestration/`, the others at the root",
    "trailers.style": "the line in commit messages that names the agent: `kernel` is Assisted-by, `apache`"
    " Generated-by, `coauthor` Co-authored-by",
    "transcripts.retain_days": "days that conversations are kept on this machine, for `remit why`; 0 keeps none",
    "snapshots.keep_days": "days that snapshots are kept",
    "snapshots.secret_days": "days that snapshots keep files whose names speak of secrets; 0 never keeps them",
    "snapshots.max_mib": "the disk space of all snapshots; the oldest go first",
    "snapshots.max_file_mib": "the largest file that a snapshot holds",
    "containment.rewrite": "`auto` runs a command [contained](../how-to/run-contained.md) where its text does not tell"
    " what it writes; `off` compares the files afterwards",
    "containment.generated": "patterns of files that tools make: contained commands may write them under any intent",
    "containment.data": "patterns of untracked [runtime data](../how-to/keep-runtime-data.md), as of a local database:"
    " contained commands change it under any intent",
    "containment.data_snapshot_mib": "the most runtime data that is copied before a command; above it none is, which is"
    " said",
    "containment.show": "secret places, such as `~/.aws/credentials`, that contained commands see; see"
    " [what they do not see](../how-to/run-contained.md#what-commands-do-not-see)",
    "containment.time_limit_s": "seconds after which a contained command is ended; 0 is no limit",
    "containment.size_limit_mib": "the most that one contained command may write; beyond it nothing is kept",
    "containment.ssh_agent": "let contained commands reach the ssh-agent: they can then sign and log in as you",
    "run.model": "the model of `remit run`, as `PROVIDER:NAME`; `--model` and `REMIT_MODEL` come first",
    "run.mode": "the mode that a run begins in",
    "run.max_turns": "turns of the model after which a run is stopped",
    "run.max_cost_usd": "US dollars after which a run is stopped; refused for a model whose price is unknown",
    "run.window": "the model's context window in tokens, where no table knows it",
    "run.edit_tools": "names of the tools for edits that the model is offered, instead of those that suit it",
    "run.language": "the language that the agent answers in",
    "run.instructions": "instructions for every mode, for the prompt",
    "console.ntfy": "a topic of an [ntfy](https://ntfy.sh) server that is told when an agent waits for you, such as"
    " `https://ntfy.sh/my-topic`; see [the console](../how-to/use-the-console.md)",
    "console.webhook": "an address that is told the same, as JSON",
    "orchestrator.target": "the branch that work of a plan lands on; see"
    " [how parallel agents are kept apart](../explanation/parallel-agents.md)",
    "orchestrator.workers": "attempts at a time on this machine, at most 64",
    "orchestrator.train": "tasks that land together at most",
    "orchestrator.attempts": "tries of a task, after which a person is asked",
    "orchestrator.stall_s": "seconds without a word after which an attempt is ended",
    "orchestrator.commons": "files that every change touches, and no task may write: `paths`, and either `make`, the"
    " command that makes them when work lands, or `fragments`, a folder for one file a change, or `union = true`, which"
    " lets every task write them and keeps the lines of all",
    "orchestrator.links": "folders that each work tree sees read-only, such as `node_modules`",
    "orchestrator.setup": "the command that prepares a work tree before its agent starts, such as `npm ci`; it has to"
    " be trusted (`remit trust`), and runs in the agent's jail",
    "orchestrator.setup_minutes": "minutes after which that command is ended",
    "orchestrator.first_role": "the role that a task begins in; it goes on in the roles of that role's `chain`",
    "orchestrator.form": '"merge" lands an intent as a merge commit, "squash" as one commit',
    "orchestrator.remote": "a remote of git where the target is moved first, and by which several hosts share it",
    "orchestrator.jail": '"require": no agent starts on a host without bubblewrap; "prefer": there they start without a'
    " jail, and what is weaker is said",
    "orchestrator.roles": "roles beside, or in place of, architect, builder, tester and reviewer: `name`, `agent`,"
    " `model`, `paths`, `effects`, `max_usd`, `max_minutes`, `max_tokens`, `chain`; a role narrows an intent, and"
    " never widens it",
    "orchestrator.max_usd": "US dollars that a plan may cost, if `remit plan start` names no others",
    "orchestrator.max_tokens": "tokens that a plan may use, likewise",
    "orchestrator.task_max_usd": "US dollars that each task of a plan may cost, all its attempts together",
    "orchestrator.task_max_tokens": "tokens that each task of a plan may use, likewise",
    "orchestrator.agents": "the most that single agents may use in a plan: `name`, `max_usd`, `max_tokens`",
    "orchestrator.weights.changes": "for `remit plan suggest`: the weight of commits that changed two files together",
    "orchestrator.weights.imports": "the weight of one file importing the other",
    "orchestrator.weights.intents": "the weight of intents under which both files changed",
    "verify.on_write": "commands that run after agents' writes; see"
    " [checks after writes](../how-to/check-after-writes.md)",
    "verify.landing": "commands that verify what several agents land together, in place of the intents' criteria",
    "verify.landing_timeout_s": "seconds after which such a command is ended",
    "hooks": "commands of yours before and after calls; see [adding hooks](../how-to/add-hooks.md)",
    "grants": "what a person allowed for the project; `remit approvals` writes and revokes them",
}

RULE_WORDS = {
    "RMT001": "by the scope that was in force, from the kept version of the intents file that the record names;"
    " what a file that was put back after the call has against it is a note, by this rule and by those below",
    "RMT002": "the record names no intent, and no person's yes",
    "RMT003": "the record says that nothing was asked before: found by comparing, or by a command whose text did not"
    " name the file",
    "RMT004": "git's own files, `.orchestration/`, `.intentignore`",
    "RMT005": "tests, assertions and skips are counted in test files, in thirteen languages, without comments and"
    " texts; what agents' calls took from a file is summed up over an intent, or a session without one, and is told"
    " where code changed under it as well. A test that begins alike elsewhere has moved",
    "RMT006": "for intents whose last transition is to DONE. A criterion with a command wants a run that passed, after"
    " the last change under the intent; one in words a person who closed it",
    "RMT007": "what `remit ledger verify` finds",
    "RMT008": "for a range, by `[trailers] style` where `remit.toml` has that table; without it only an agent's"
    " `Signed-off-by`",
    "RMT009": "files from which an agent takes its hooks, permissions or servers, such as `.claude/settings.json`",
    "RMT010": "manifests and lock files of package managers, by their names",
    "RMT011": "texts that would be masked if they were written today: by `[redact] patterns` of the team's own, or by"
    " patterns of a newer Remit. Without a range in every record of this machine, with one in those behind it; and in"
    " notes. The text is not shown",
    "RMT012": "the record names the grant or the approval; one that has ended lets nothing through",
    "RMT014": "only where one of them is `AST_REFACTOR`",
    "RMT015": "only where the session announced paths when it selected the intent",
    "RMT016": "the SHA-256 of contents before and after, and of the lines that were written",
    "RMT017": "by what git says that the commit added",
    "RMT018": "over all that was changed under the intent, as it ended",
    "RMT019": "for a range, with `--require-evidence` or `--min-evidence`: no record of this machine, no shared one"
    " that a trusted key signed, and no note tells who made it",
}

NO_RULES = {
    "RMT013": "*an intent written against files that moved since*: a record says what HEAD was when an intent was"
    " written, and not which files its author had read. `remit intent lint` names scopes that overlap",
}

LINT_WORDS = {
    "YAML_PARSE_ERROR": "it is not YAML, it is too large or too deep, or it cannot be read",
    "IN_BOTH_LAYOUTS": "the list has an intent that has a file of its own; the file counts",
    "NESTED_RULES": "warning: a folder below the root has rules that do not hold there",
    "NAME_MISMATCH": "warning: the name of a file begins with another id than the one inside, which counts",
    "CLOSED_THEN_CHANGED": "warning: scope, constraints or criteria of an ended intent were changed after its end",
    "UID_CHANGED": "warning: created_at was changed, so that earlier records are another intent's",
    "VIEW_EDITED": "a person has changed the view, where nothing is read",
    "MISSING_ACTIVE_INTENTS": "there is no `active_intents`, or it is no list",
    "INVALID_ID_FORMAT": "an id is missing, or not shaped like `INT-001`",
    "DUPLICATE_ID": "an id is declared twice",
    "CONFLICT_MARKERS": "git left markers of a conflict in the file; `remit intent resolve` merges both sides",
    "DEAD_SCOPE": "warning: the files of a pattern moved or went; where most of them are now is named",
    "INVALID_STATUS": "a status is none of those below",
    "INVALID_FIELD": "a value is of the wrong kind, the file's `version` or a constraint's `type` is unknown,"
    " or an option of a constraint is missing, unknown, or no pattern or range that can be used",
    "EMPTY_SCOPE": "an intent owns nothing",
    "INVALID_GLOB": "a pattern cannot be read",
    "ABSOLUTE_PATH": "a pattern does not start at the workspace's root",
    "INVALID_TIMESTAMP_FORMAT": "a time is not ISO 8601 with an offset",
    "INVALID_DEPENDENCY": "a dependency is unknown, or the intent itself",
    "CIRCULAR_DEPENDENCY": "dependencies lead back to where they began",
    "INVALID_PARENT": "a parent is unknown, or leads back",
    "DOUBTFUL_SCOPE": "warning: a pattern that can match nothing, or not what it seems to say",
    "SCOPE_OVERLAP": "warning: two intents in progress own a common file; an example is named",
    "INVALID_TIMESTAMP": "warning: updated before created",
    "MISSING_CONSTRAINTS": "warning: nothing to keep to",
    "MISSING_ACCEPTANCE_CRITERIA": "warning: nothing says when it is done",
    "UNFINISHED_DEPENDENCY": "warning: in progress before what it depends on is done",
    "TOO_MANY_INTENTS": "warning: more than 1,000",
    "UNKNOWN_KEY": "warning: a key that means nothing here; it is kept",
}

EVENT_WORDS = {
    "mutation": "what a call changed on disk, found by comparing: paths, hashes and line ranges before and after",
    "generated": "generated files that a contained command changed: how many, their bytes, a digest, and in `listing`"
    " the git blob that names each",
    "data_snapshot": "a copy of runtime data from before a command was kept: its restore point `id`, and `paths`",
    "data_changed": "runtime data that a contained command changed: `path`, hashes `before` and `after`, `bytes`; it"
    " has no lines and no author",
    "tool_use": "a call that was let through, with the decision",
    "tool_result": "a call that came back: whether it went well, a short summary without secrets",
    "denied": "a call that was refused, with the violation",
    "approval_requested": "a person was asked",
    "approval_answered": "a person answered",
    "intent_selected": "a session works under an intent from here on",
    "intent_cleared": "and from here on no longer",
    "intent_renumbered": "one of two intents with an id got a new one: `uid`, `from`, `to`, `by`",
    "intent_reopened": "a person revoked the end of an intent: `cancels` (the record of it), `from`, `reason`, `by`",
    "intent_transition": "an intent's status changed: `from`, `to`, `by`, `notes`; `life` (where and at which commit)",
    "intent_changed": "the intents file has a new content: its SHA-256",
    "session_start": "a conversation began, was resumed, or lost its context",
    "session_end": "a conversation ended",
    "verification": "a command that proves a criterion was run",
    "lesson": "something to remember was written down",
    "snapshot": "a state of the workspace was kept",
    "restore": "and brought back",
    "human_edit": "a person's change was seen",
    "replay": "a command run again proved what it had written",
    "check_failed": "one of Remit's own checks broke, and so denied",
    "recovery": "the log was damaged and mended: what was lost or moved aside",
    "tree_head": "the log's signed root",
    "work_requested": "a person asked for something by `remit start`: `request`, for sessions of the `place`",
    "task_handed_in": "an attempt of a plan is done by its own word, and its criteria hold: it waits for landing",
    "task_landed": "what an intent did became part of the target branch, or was taken out of it again (`undone`)",
    "console_paired": "a browser was paired with the console",
    "review_sent": "a person's comments on changes were sent to the session: `notes` is the message",
    "setting_changed": "a person changed a setting in the console: its `name`, `from` and `to` as JSON, redacted",
    "pruned": "old records were dropped by a person's command: which parts of the log, and how many of each event",
}

RECORD_PARTS = (
    record.Body,
    record.CallPart,
    record.DecisionPart,
    record.MutatedFile,
    record.Content,
    record.MutationClass,
    record.Chain,
    record.TracedFile,
    record.Conversation,
    record.Contributor,
    record.Range,
    record.Related,
    record.Vcs,
    record.Tool,
)


PERSON_WORDS = {
    "tools.read": "names of tools that only read, as patterns: `mcp__github__list_*`. They need no intent",
    "tools.harmless": "the same, for tools that do something else which changes no file",
    "tools.ask": "names of tools before which you are asked, whatever else holds",
}

REMOTE_WORDS = {
    "origin": "the address that browsers open: `https://`, the host, and the port unless it is 443",
    "issuer": "the OpenID Connect provider, as it writes itself; `https`, but for one on this machine",
    "client_id": "the name of this console at the provider",
    "client_secret_file": "a file with the client's secret; without one the client is public, with PKCE alone",
    "cert": "a PEM file with the certificate and its chain; relative names lie beside the settings",
    "key": "a PEM file with the certificate's key",
    "proxies": "addresses or networks of proxies with TLS: they alone are believed about their clients",
    "listen": "the address and port to listen at; by default `0.0.0.0` and the port of `origin` with `cert`,"
    " else `127.0.0.1:7718`",
    "scopes": "what is asked of the provider; with `openid`",
    "roles_claim": "the claim that gives roles: by its whole name, or by a path such as `realm_access.roles`; in the"
    " identity token or from the provider's `userinfo`",
    "roles": "for `view`, `approve` and `admin` the values of the claim that give the role; by default the role's name",
    "session_hours": "hours after which a login ends; up to 168",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: object) -> str:
    """`text` as inline code; nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def anchor(name: str) -> str:
    """The address of a part of a record on its page."""
    return f"[{name}](#{name.lower()})"


def worded(words: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The words for exactly these names. Raises SystemExit naming what has none, or is gone."""
    wanted = list(names)
    wrong = sorted(set(words) ^ set(wanted))
    if wrong:
        raise SystemExit(f"docs/generate.py: words and code differ in {', '.join(wrong)}")
    return {name: words[name] for name in wanted}


def first_line(documented: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((getattr(documented, "__doc__", None) or "").strip().split("\n\n")[0].split())


def flat(document: str | None) -> str:
    """A help text with its lines joined."""
    return "\n\n".join(" ".join(part.split()) for part in (document or "").split("\n\n")).replace("\b", "")


# -- cli ------------------------------------------------------------------------------------------------------


def commands(group: click.Group, path: tuple[str, ...]) -> Iterable[tuple[tuple[str, ...], click.Command]]:
    """Every command below `group`, groups before what is in them."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if found is None or name == "hook":
            continue
        yield (*path, name), found
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))


def command_part(path: tuple[str, ...], command: click.Command) -> str:
    """A command's heading, usage, help and options."""
    context = click.Context(command, info_name=" ".join(path))
    usage = " ".join([" ".join(path), *command.collect_usage_pieces(context)])
    parts = [f"{'##' if len(path) == 2 else '###'} {' '.join(path)}", f"```text\n{usage}\n```", flat(command.help)]
    options = [option_row(p, context) for p in command.params if isinstance(p, click.Option)]
    return "\n\n".join([*parts, table(("option", "what"), options)] if options else parts)


def option_row(option: click.Option, context: click.Context) -> tuple[str, str]:
    """One option, as its own help says it."""
    found = option.get_help_record(context)
    names, about = found if found else (option.opts[0], "")
    return code(names), about


def cli() -> str:
    """The page of commands."""
    people = ", ".join(code("remit " + " ".join(words)) for words in sorted(REMIT_COMMANDS))
    hook = (
        f"## remit hook\n\n```text\nremit hook AGENT [pre|post|note] < payload\n```\n\n"
        f"Answer one hook call of an agent ({', '.join(map(code, ROWS))}): its payload on standard input, its answer "
        "on standard output. Agents start this.\n"
        "Exit code 0 for every answer, denials included; 2 only where a `pre` call could not be answered."
    )
    return "\n\n".join(
        [
            "# Commands",
            flat(remit.help),
            '`--json` prints one document: `{"schema_version": 1, "data": …}`, or `"error"` with `code`, '
            "`message`, `target` and `fix`. Prose about failures goes to standard error.",
            f"In a shell that an agent started these may be run: {people}. The rest is for people.",
            "## Exit codes",
            table(("code", "means"), EXIT_CODES.items()),
            *(command_part(path, command) for path, command in commands(remit, ("remit",))),
            hook,
        ]
    )


# -- intents file -----------------------------------------------------------------------------------------------


def intents_file() -> str:
    """The page of `active_intents.yaml`."""
    fields = msgspec.structs.fields(Intent)
    words = worded(INTENT_WORDS, (f.name for f in fields))
    rows = [(code(f.name), kind_of(f.type), default_of(f), words[f.name]) for f in fields]
    life = [(status, ", ".join(sorted(after)) or "final") for status, after in TRANSITIONS.items()]
    aliases = ", ".join(f"{old} as {new}" for old, new in STATUS_ALIASES.items())
    return "\n\n".join(
        [
            "# Intents file",
            "`.orchestration/intents/INT-….yaml`: what agents may do, one file an intent. Written by people and by "
            "`remit intent`; comments and order survive what Remit writes. The id inside counts, not the file's name.",
            '```yaml\nid: INT-001\nname: Sign-in by token\n\nowned_scope:\n  - src/auth/**\n  - "!src/auth/legacy/**"\n'
            "\nconstraints:\n  - Tokens expire within an hour\n\nacceptance_criteria:\n"
            '  - {text: Tests pass, verify: "pytest tests/auth -q"}\n```',
            "A list of intents is read as well: `.orchestration/active_intents.yaml`, with `active_intents:` over "
            "items or a mapping of the same fields. A repository that has one keeps it; where an id stands in both, "
            "its own file counts. Beside files, a list that begins with `# remit:view` is a view: Remit writes it at "
            "each step, git ignores it, and nothing is read from it.",
            "## Fields",
            table(("field", "type", "default", "meaning"), rows),
            "## Structured constraints",
            "A mapping with a `type` is held against what each call would leave, and against what commands left; see "
            "[how to keep agents to constraints](../how-to/keep-to-constraints.md). `paths` are patterns as in "
            "`owned_scope`, one or a list; without them every file is meant.",
            table(("type", "options", "asks"), map(constraint_row, CONSTRAINT_KINDS)),
            "## Its life",
            table(("status", "may become"), life),
            "A file says `status` once its intent is DONE, ABORTED or BLOCKED; the rest stands in the ledger "
            "(`[intents] write_back` changes that). What `remit status` and the console show follows from the file, "
            "the newest record and the branch: completed in another worktree, an intent is DONE here too, until its "
            f"branch is merged or gone. Read as well: {aliases}.",
            "## Findings",
            "`remit intent lint` reports all of them, each with file, line and column. An error closes the intent of "
            "its file, and in a list all of the list: in *enforce*, changes under them are refused until it is mended.",
            table(("code", "when"), ((code(k), v) for k, v in worded(LINT_WORDS, get_args(LintCode)).items())),
        ]
    )


def constraint_row(kind: str) -> tuple[str, str, str]:
    """A kind of constraint: its options, those that it cannot do without first, and what it asks."""
    shape = CONSTRAINT_KINDS[kind]
    needed = [" or ".join(map(code, group)) for group in shape.needs]
    free = [code(name) for name in shape.options if not any(name in group for group in shape.needs)]
    return code(kind), "; ".join([*needed, *(f"{name}?" for name in free)]), shape.meaning


# -- violations -------------------------------------------------------------------------------------------------


def list_modules() -> Iterator[Path]:
    for folder in SOURCES:
        yield from sorted(folder.rglob("*.py"))


def said_in_calls(spared: frozenset[str]) -> frozenset[str]:
    """The text that modules outside `spared` hand to functions: the codes and events that can occur today."""
    modules = (ast.parse(p.read_text("utf-8")) for p in list_modules() if p.name not in spared)
    calls = [node for module in modules for node in ast.walk(module) if isinstance(node, ast.Call)]
    given = [value for call in calls for value in (*call.args, *(k.value for k in call.keywords))]
    constants = [n.value for value in given for n in ast.walk(value) if isinstance(n, ast.Constant)]
    return frozenset(value for value in constants if isinstance(value, str))


def violations() -> str:
    """The page of denials."""
    raised = said_in_calls(frozenset({"decision.py"}))
    words = worded({**MEANINGS}, get_args(ErrorType))
    hinted: Mapping[str, str] = {**HINTS}
    rows = [
        (
            code(name),
            text if name in raised else f"{text} (*reserved: nothing raises it yet*)",
            code(hinted[name]),
            "no" if name in NOT_RECOVERABLE else "yes",
        )
        for name, text in words.items()
    ]
    steps = dict.fromkeys((*HINTS.values(), "propose_intent"))
    forms = {hint: code(SHELL_FORMS[hint]) if hint in SHELL_FORMS else "" for hint in steps}
    hints = [(code(h), forms[h], EXAMPLES.get(h, ""), REASONS.get(h, REASONS["ask_user"])) for h in steps]
    checks = [(str(n), code(name), first_line(check)) for n, (name, check) in enumerate(CHECKS.items(), 1)]
    return "\n\n".join(
        [
            "# Violations",
            "Why a call was refused. The agent reads five parts: what was violated, what happened, what to do, an "
            "example, why the rule exists. The ledger keeps the same as data, in `denied` records.",
            table(("code", "when", "what to do", "recoverable"), rows),
            "*Recoverable* is what the agent can put right by itself.",
            "## What to do",
            "A step by one of Remit's tools has a form for the shell. The refusal names both: first the tool, where "
            "the session has used one, else the command. An agent runs it alone; its hook does what it says, and waits "
            "for a person where one has to say yes.",
            table(("hint", "alone in a shell", "example", "why"), hints),
            "## The checks",
            "Every check runs on every call that may change something, and every finding is kept. The order decides "
            "only which one leads. A check that breaks denies.",
            table(("", "check", "finds"), checks),
        ]
    )


# -- records ----------------------------------------------------------------------------------------------------


def rules() -> str:
    """The page of what `remit verify` finds."""
    words = worded(RULE_WORDS, RULES)
    rows = [(code(rule), severity, about, words[rule]) for rule, (severity, about) in RULES.items()]
    broken = " and ".join(map(code, INTEGRITY_RULES))
    return "\n\n".join(
        [
            "# Rules of remit verify",
            "`remit verify` holds what was recorded against these rules; `remit verify main..HEAD` only what those "
            "commits brought. The ids stay, so that a build can name them.",
            table(("rule", "weight", "finds", "how"), rows),
            f"`--fail-on` says which weight ends the command with 1; {broken} end it with 5, whatever that says.",
            "A content that is not at hand any more is passed over by the rules that look into contents; the last "
            "lines of the answer count those.",
            "## What is not there",
            table(("rule", "why"), [(code(rule), why) for rule, why in NO_RULES.items()]),
        ]
    )


def records() -> str:
    """The page of the ledger's lines."""
    written = said_in_calls(frozenset({"record.py", "context_block.py"}))
    events = [
        (code(name), text if name in written else f"{text} (*reserved: nothing writes it yet*)")
        for name, text in worded(EVENT_WORDS, get_args(record.EventName)).items()
    ]
    return "\n\n".join(
        [
            "# Records",
            "The ledger is one JSON object a line, keys sorted, UTF-8. Each is an Agent Trace record "
            f"({record.TRACE_VERSION}) with `id`, `timestamp`, `files`, `vcs`, `tool`; Remit's own part is "
            f'`metadata["{record.KEY}"]`, and its shape is [Body](#body).',
            "It holds paths, hashes, ranges and metadata, never the content of files; what looks like a secret in a "
            "command is masked before the line is written.",
            "## Events",
            table(("event", "says"), events),
            *(record_part(part) for part in RECORD_PARTS),
        ]
    )


def record_part(part: type[Struct]) -> str:
    """One struct of a record: its docstring and its fields."""
    rows = [
        (code(f.name), "one of the [events](#events)" if f.name == "event" else kind_of(f.type))
        for f in msgspec.structs.fields(part)
    ]
    return f"## {part.__name__}\n\n{first_line(part)}\n\n{table(('field', 'type'), rows)}"


# -- configuration ----------------------------------------------------------------------------------------------


def configuration() -> str:
    """The page of `remit.toml`."""
    tools = [(code(name), first_line(tool.arguments)) for name, tool in TOOLS.items()]
    return "\n\n".join(
        [
            "# Configuration",
            "`.orchestration/remit.toml`, all of it optional. An unknown key is an error, not a silence; a file that "
            "cannot be used counts as *enforce*, and changes are refused with `CONFIG_INVALID`.",
            table(("setting", "type", "default", "meaning"), setting_rows()),
            "Where `remit init` was not run, nothing is in force. It always writes `mode`; where that line is taken "
            "out later, a workspace with an intents file is in *enforce*, one without in *observe*. "
            "`remit mode` writes it.",
            "## Your own settings",
            f"`~/{CONFIG_PATH}`: what you say of tools that Remit does not know, on this machine. No "
            "repository has such a table. A tool in `read` or `harmless` that is given a path or a command is compared "
            "all the same, and what it changes is undone in *enforce*. While the file cannot be read, calls of such "
            "tools are refused.",
            table(("setting", "type", "default", "meaning"), person_rows()),
            "## The console for other machines",
            f"`[console]` in `~/{CONFIG_PATH}`, a file of the person's own, which only they may be able to write: see "
            "[how to open the console from another machine](../how-to/open-the-console-to-others.md). It is read when "
            "the console starts. An error in it keeps the console from starting.",
            table(("setting", "type", "default", "meaning"), remote_rows()),
            "## Clones that carry rules",
            f"`[adopt]` in `~/{CONFIG_PATH}`: which clones of repositories with committed rules are governed by them "
            "at once. See [how to work in a team](../how-to/work-in-a-team.md). A file that cannot be used adopts "
            "nothing, and in clones whose rules do not hold it refuses changes.",
            table(
                ("setting", "type", "default", "meaning"),
                [
                    (code(name), kind, default_of(field), ADOPT_WORDS[name])
                    for name, kind, field in settings(AdoptSettings, "")
                ],
            ),
            "## Environment",
            table(
                ("variable", "meaning"),
                [
                    ("`REMIT_INTENT`", "the intent that sessions started with it work under, when they select none"),
                    ("`TMPDIR`", "files below it are nobody's, and may be written"),
                ],
            ),
            "## Tools for agents",
            "What `remit mcp` offers.",
            table(("tool", "what"), tools),
        ]
    )


ADOPT_WORDS = {
    "remotes": "patterns for where `origin` lies, as host/path; `*` stays in one part, `**` does not",
    "paths": "patterns for where the clone lies; `~` is your home folder",
    "otherwise": "in other clones that carry rules: tell the agent and you, ask about each change, or refuse changes",
}


def person_rows() -> list[tuple[str, str, str, str]]:
    """The rows of the table of the person's own settings."""
    found = settings(config.MachineSettings, "")
    words = worded(PERSON_WORDS, (name for name, _, _ in found))
    return [(code(name), kind, default_of(field), words[name]) for name, kind, field in found]


def remote_rows() -> list[tuple[str, str, str, str]]:
    """The rows of the table of settings of the console for other machines."""
    found = settings(RemoteSettings, "")
    words = worded(REMOTE_WORDS, (name for name, _, _ in found))
    return [(code(name), kind, default_of(field), words[name]) for name, kind, field in found]


def settings(part: type[Struct], prefix: str) -> list[tuple[str, str, Any]]:
    """The settings of a struct as (name, type, field), those of nested structs under their table's name."""
    rows: list[tuple[str, str, Any]] = []
    for field in msgspec.structs.fields(part):
        kind: Any = field.type
        if isinstance(kind, type) and issubclass(kind, Struct):
            rows += settings(kind, f"{prefix}{field.name}.")
        else:
            rows.append((prefix + field.name, kind_of(kind), field))
    return rows


def setting_rows() -> list[tuple[str, str, str, str]]:
    """The rows of the table of settings."""
    found = settings(config.Config, "")
    words = worded(SETTING_WORDS, (name for name, _, _ in found))
    unused = " (*reserved: without effect yet*)"
    return [
        (code(name), kind, default_of(field), words[name] + ("" if is_used(name) else unused))
        for name, kind, field in found
    ]


def is_used(setting: str) -> bool:
    """Whether some module takes this setting from a configuration, or its whole table and the setting from that."""
    modules = [p.read_text("utf-8") for p in list_modules()]
    if any(re.search(rf"\bconfig\.{re.escape(setting)}\b", text) for text in modules):
        return True
    table, *inner = setting.split(".")
    handed_on = re.compile(rf"\bconfig\.{table}\b(?!\.)")
    taken = [re.compile(rf"\.{key}\b") for key in inner]
    return bool(inner) and all(any(map(found.search, modules)) for found in (handed_on, *taken))


# -- types ------------------------------------------------------------------------------------------------------


def kind_of(kind: Any) -> str:
    """A type in words that a reader of JSON, YAML or TOML knows."""
    arguments = [a for a in get_args(kind) if a is not msgspec.UnsetType]
    if kind is type(None):
        return "null"
    if isinstance(kind, str):
        return code(kind)
    if kind == ErrorType:
        return "[violation code](violations.md)"
    if getattr(kind, "__origin__", None) is tuple:
        return f"list of {kind_of(arguments[0])}"
    if getattr(kind, "__origin__", None) is dict:
        return "mapping"
    if arguments:
        return " or ".join(kind_of(a) for a in arguments)
    return NAMES.get(kind) or (anchor(kind.__name__) if kind in RECORD_PARTS else "mapping")


NAMES: dict[object, str] = {str: "text", int: "number", float: "number", bool: "yes or no"}


def default_of(field: msgspec.structs.FieldInfo) -> str:
    """A field's default as one would write it."""
    if field.required:
        return "*required*"
    value = None if field.default is msgspec.NODEFAULT else field.default
    if value in (None, "", (), UNSET):
        return ""
    return code(msgspec.json.encode(value).decode().strip('"'))


PAGES: Mapping[str, Callable[[], str]] = {
    "cli": cli,
    "intents-file": intents_file,
    "violations": violations,
    "rules": rules,
    "records": records,
    "configuration": configuration,
}


def main() -> int:
    """Write the pages, or name those that are behind; 1 where there are any."""
    behind: list[str] = []
    texts = {
        DOCS / "reference" / f"{name}.md": f"{NOTICE}\n\n{TRAILING.sub('', page())}\n" for name, page in PAGES.items()
    }
    texts[DOCS / "assets" / "architecture.svg"] = draw_architecture()
    for path, text in texts.items():
        if path.exists() and path.read_text("utf-8") == text:
            continue
        behind.append(str(path.relative_to(DOCS.parent)))
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
    for path in behind:
        sys.stdout.write(
            f"{path} {'is behind the code: run docs/generate.py' if '--check' in sys.argv else 'written'}\n"
        )
    return 1 if behind and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
