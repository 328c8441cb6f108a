"""Everyday commands with and without Remit: `make everyday`.

Each command runs twice on equal copies of a repository, at the same path: once as it is, and once as an agent's shell
call in enforce, through the hooks of Claude Code, contained where Remit has it contained. Compared are the exit codes,
what was printed (without times), the working tree, what git ignores, and git's own state.

`--quick` runs a part, `--only WORDS` the rows whose title holds them, `--write PAGE` writes the page.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from socket import socket
from threading import Thread
from typing import Any

from everyday_rows import Kind, Row

from remit.core.agents import ROWS as AGENTS
from remit.gate.machine import Environment
from remit.servers.hook import EventClass, HookFrame, answer
from remit.workspace.sandbox.containment import find_containment

DATA = (
    "everyday_rows",
    *sorted({path.stem for path in Path(__file__).parent.glob("everyday_*.py")} - {"everyday_rows"}),
)
"""Modules of data: each holds kinds of repository, rows, or both."""

KINDS: tuple[Kind, ...] = tuple(kind for name in DATA for kind in getattr(import_module(name), "KINDS", ()))
ROWS: tuple[Row, ...] = tuple(row for name in DATA for row in getattr(import_module(name), "ROWS", ()))

STEP_TIMEOUT_S = 300
DATE = "2026-11-01T12:00:00Z"
MAX_REFUSED = 3
CLASSES: dict[str, EventClass] = {"PreToolUse": "pre", "PostToolUse": "post", "PostToolUseFailure": "post"}
AWAY = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|Could not find a version|No matching distribution"
    r"|Temporary failure in name resolution|CERT_"
)
VOLATILE = (
    (re.compile(r"\b\d+(\.\d+)?\s?(ms|s|seconds)\b"), "TIME"),
    (re.compile(r"\b[0-9a-f]{7,64}\b"), "ID"),
    (re.compile(r"/tmp/\S+"), "TEMPORARY"),
)


@dataclass
class Result:
    """What came of a row's steps in one copy."""

    codes: list[int] = field(default_factory=list[int])
    printed: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])
    refused: str = ""
    told: list[str] = field(default_factory=list[str])
    state: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Outcome:
    """One row's comparison. `word` is same, refused, dropped, broken or skipped."""

    kind: str
    row: Row
    word: str
    detail: str = ""


class LargeFiles(BaseHTTPRequestHandler):
    """A server of large files beside the origin. Source: docs/api/batch.md of git-lfs 3.3, read 2026-11."""

    def __init__(self, folder: Path, *more: Any) -> None:
        self.folder = folder
        super().__init__(*more)

    def do_POST(self) -> None:
        """Tell where each file is to be put, or got."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        place = f"http://{self.headers['Host']}"
        kind = asked["operation"]
        objects = [{**one, "actions": {kind: {"href": f"{place}/{one['oid']}"}}} for one in asked["objects"]]
        self.reply(json.dumps({"transfer": "basic", "objects": objects}).encode())

    def do_PUT(self) -> None:
        """Store a file."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / Path(self.path).name).write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply(b"")

    def do_GET(self) -> None:
        """Send a file."""
        self.reply((self.folder / Path(self.path).name).read_bytes())

    def reply(self, content: bytes) -> None:
        """Answer with this content."""
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.git-lfs+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Bench:
    """The folders of one run: a home, a temporary folder, and the place where each repository stands."""

    def __init__(self, work: Path) -> None:
        self.home = work / "home"
        self.temporary = work / "tmp"
        self.root = self.home / "work" / "repo"
        self.kept = work / "templates"
        for folder in (self.home, self.temporary, self.kept):
            folder.mkdir()
        row = AGENTS["claude-code"]
        self.environment = Environment(
            self.home, self.temporary, settings=row.settings_files, own_folders=row.own_folders
        )
        self.agents = 0
        self.port = 0
        self.large_files = ""

    @contextmanager
    def origin(self) -> Generator[None]:
        """Serve the repository that stands beside each copy: a remote lies on another machine."""
        with socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = ["git", "daemon", "--reuseaddr", "--export-all", "--enable=receive-pack", "--listen=127.0.0.1"]
        self.root.parent.mkdir(parents=True)
        server = subprocess.Popen(
            [*words, f"--port={self.port}", f"--base-path={self.root.parent}"], stderr=subprocess.DEVNULL
        )
        files = self.root.parent / "origin.git" / "large-files"
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(LargeFiles, files)) as large:
            Thread(target=large.serve_forever, daemon=True).start()
            self.large_files = f"http://127.0.0.1:{large.server_port}"
            try:
                yield
            finally:
                large.shutdown()
                server.terminate()
                server.wait()

    def enter(self) -> None:
        """Make this process, and all that it starts, live in the home of this run."""
        began = dict(os.environ)
        for name in list(os.environ):
            if name.startswith(("GIT_", "REMIT_", "CLAUDE", "XDG_", "VIRTUAL_ENV")):
                del os.environ[name]
        rust = Path(began.get("RUSTUP_HOME", Path(began["HOME"]) / ".rustup"))
        os.environ |= {
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), began["PATH"])),
            "RUSTUP_HOME": str(rust),
            "GIT_AUTHOR_DATE": DATE,
            "GIT_COMMITTER_DATE": DATE,
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONHASHSEED": "0",
            "CARGO_INCREMENTAL": "0",
            "npm_config_update_notifier": "false",
            "NO_COLOR": "1",
        }
        npm = Path(began["HOME"]) / ".npmrc"
        if npm.is_file():
            os.environ["NPM_CONFIG_USERCONFIG"] = str(npm)
        (self.home / ".claude").mkdir()
        (self.home / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["Bash"]}}')
        (self.home / ".gitconfig").write_text(
            "[user]\n\tname = A Person\n\temail = person@example.org\n[init]\n\tdefaultBranch = main\n"
        )

    # -- copies ---------------------------------------------------------------------------------------------

    def make(self, kind: Kind) -> None:
        """Make a governed repository of that kind, and keep it as the template of its copies."""
        self.clear()
        self.root.mkdir(parents=True)
        script = f"set -e\n{kind.make}\n"
        shell(script, self.root, check=True, LARGE_FILES=self.large_files)
        remit = [sys.executable, "-I", "-c", "from remit.cli import main; main()"]
        init = [*remit, "init", "--yes", "--no-agents", "--mode", "enforce"]
        scope = [part for glob in kind.scope for part in ("--scope", glob)]
        if kind.code:
            shell("git init -q -b main .", self.root, check=True)
        subprocess.run(init, cwd=self.root, check=True, capture_output=True)
        for words in (("new", "Work", *scope), ("set-status", "INT-001", "IN_PROGRESS")):
            subprocess.run([*remit, "intent", *words], cwd=self.root, check=True, capture_output=True)
        if kind.code:
            variables = {
                "CODE": kind.code,
                "FEATURE": "# feature" if kind.code.endswith(".py") else "// feature",
                "MATE": "of the team",
                "ORIGIN": f"git://127.0.0.1:{self.port}/origin.git",
            }
            shell(f"set -e\n{kind.git}", self.root, check=True, **variables)
        shutil.copytree(self.root.parent, self.kept / kind.name, symlinks=True)

    def clear(self) -> None:
        """Remove the repository, its origin and what else stands beside it."""
        shutil.rmtree(self.root.parent, ignore_errors=True)

    def copied(self, kind: Kind, row: Row) -> None:
        """Put a fresh copy in place, as a person leaves it."""
        self.clear()
        # With its times: git would take every file for changed.
        subprocess.run(["cp", "-a", str(self.kept / kind.name), str(self.root.parent)], check=True)
        if row.before:
            shell(f"set -e\n{row.before}", self.root, check=True, CODE=kind.code)

    # -- runs -----------------------------------------------------------------------------------------------

    def plain(self, kind: Kind, row: Row) -> Result:
        """Run the steps as they are."""
        found = Result()
        server = None
        for n, step in enumerate(row.steps):
            if row.serves and n == 0:
                server = background(step, self.root, kind)
            else:
                self.done(found, shell(step, self.root, CODE=kind.code))
        end(server)
        found.state = self.state(kind)
        return found

    def governed(self, kind: Kind, row: Row) -> Result:
        """Run the steps as the shell calls of an agent."""
        self.agents += 1
        agent = Agent(self, f"session-{self.agents}")
        agent.send("SessionStart", source="startup")
        agent.call("remit intent select INT-001")
        found = Result()
        server = None
        for n, step in enumerate(row.steps):
            step = step.replace("$CODE", kind.code)  # as an agent writes it: no variable tells it the file
            call = agent.call(step, **({"run_in_background": True} if row.serves and n == 0 else {}))
            if call.refusal:
                found.refused = f"`{step}`: {call.refusal}"
                break
            if row.serves and n == 0:
                server = background(call.arguments["command"], self.root, kind)
                agent.tell(call, {"backgroundTaskId": "b1"})
                continue
            done = shell(call.arguments["command"], self.root)
            self.done(found, done)
            response = {"stdout": done.stdout, "stderr": done.stderr}
            said = agent.tell(call, response, failed=done.returncode != 0)
            found.told += [text for text in (said, remits(done.stderr)) if text]
        end(server)
        agent.send("Stop")
        found.state = self.state(kind)
        return found

    def done(self, found: Result, done: "subprocess.CompletedProcess[str]") -> None:
        """Note what a step came to."""
        found.codes.append(done.returncode)
        found.printed.append(settled(done.stdout))
        found.errors.append(done.stderr)

    # -- what is there --------------------------------------------------------------------------------------

    def state(self, kind: Kind) -> dict[str, Any]:
        """The working tree, what git ignores, and git's own state."""
        ignored: set[str] = set()
        if kind.code:
            out = git(self.root, "ls-files", "-z", "--others", "--ignored", "--exclude-standard")
            ignored = {path for path in out.split("\0") if path}
        files = dict(tree(self.root))
        found: dict[str, Any] = {
            "working tree": {path: one for path, one in files.items() if path not in ignored},
            "ignored files": sorted(name_of(path) for path in files if path in ignored),
        }
        if kind.code:
            found |= git_state(self.root)
        return found


@dataclass(frozen=True)
class Call:
    """A shell call as its hook answered it. `refusal` is empty where it may run."""

    id: str
    arguments: dict[str, Any]
    refusal: str = ""


class Agent:
    """One session of Claude Code's, in which this program is the agent."""

    def __init__(self, bench: Bench, session: str) -> None:
        self.bench = bench
        self.session = session
        self.calls = 0

    def send(self, event: str, **fields: Any) -> dict[str, Any]:
        """What Remit answers to an event."""
        root = str(self.bench.root)
        payload = {"session_id": self.session, "cwd": root, "hook_event_name": event, **fields}
        reply = answer(
            json.dumps(payload).encode(),
            HookFrame("claude-code", root, CLASSES.get(event, "note")),
            self.bench.environment,
        )
        return json.loads(reply.stdout).get("hookSpecificOutput", {}) if reply.stdout else {}

    def call(self, command: str, **more: Any) -> Call:
        """What the hook makes of a shell call."""
        self.calls += 1
        call_id = f"toolu_{self.session}_{self.calls}"
        arguments = {"command": command, **more}
        said = self.send("PreToolUse", tool_name="Bash", tool_input=arguments, tool_use_id=call_id)
        if said.get("permissionDecision") in ("deny", "ask"):
            return Call(call_id, arguments, str(said.get("permissionDecisionReason")))
        return Call(call_id, said.get("updatedInput", arguments))

    def tell(self, call: Call, response: dict[str, Any], *, failed: bool = False) -> str:
        """What Remit tells the model after the call."""
        event = "PostToolUseFailure" if failed else "PostToolUse"
        said = self.send(
            event, tool_name="Bash", tool_input=call.arguments, tool_use_id=call.id, tool_response=response
        )
        return str(said.get("additionalContext", ""))


# -- running ---------------------------------------------------------------------------------------------------


def shell(command: str, folder: Path, *, check: bool = False, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as an agent's shell does."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        timeout=STEP_TIMEOUT_S,
        env={**os.environ, **variables},
    )
    if check and done.returncode:
        raise RuntimeError(f"{command!r} ended with {done.returncode}: {done.stderr}")
    return done


def background(command: str, folder: Path, kind: Kind) -> "subprocess.Popen[bytes]":
    """Start a command that goes on."""
    return subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "CODE": kind.code},
    )


def end(server: "subprocess.Popen[bytes] | None") -> None:
    """End a background command as an agent ends it."""
    if server is None:
        return
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    server.wait(timeout=30)


def remits(text: str) -> str:
    """The lines of Remit's own in what a command said."""
    return "\n".join(line for line in text.splitlines() if line.startswith("Remit"))


def settled(text: str) -> str:
    """What was printed, without times, ids and temporary places."""
    for found, word in VOLATILE:
        text = found.sub(word, text)
    return text


def git(folder: Path, *words: str) -> str:
    """What git says; empty where it fails."""
    done = subprocess.run(["git", "--no-optional-locks", *words], cwd=folder, capture_output=True, text=True)
    return done.stdout


def tree(root: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Mode and content of each file, but for git's and Remit's own, and compiled Python."""
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names if n not in (".git", ".orchestration", "__pycache__")]
        for name in (*files, *(n for n in names if (Path(folder) / n).is_symlink())):
            path = Path(folder) / name
            if name == ".git" or path.suffix == ".pyc":
                continue
            if path.is_symlink():
                yield str(path.relative_to(root)), ("link", os.readlink(path))  # noqa: PTH115
            elif path.is_file():
                mode = "executable" if os.access(path, os.X_OK) else "plain"
                yield str(path.relative_to(root)), (mode, hashlib.sha256(path.read_bytes()).hexdigest())


def name_of(path: str) -> str:
    """An ignored file's path, without the parts that change from run to run."""
    return re.sub(r"[0-9a-f]{8,}|\d{6,}|-[0-9a-z]{20,}", "ID", path)


def git_state(root: Path) -> dict[str, Any]:
    """HEAD, branches, index, stash, upstreams, and what is under way."""
    refs = git(root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags", "refs/remotes")
    config = git(root, "config", "--local", "--list").splitlines()
    stashes = git(root, "stash", "list", "--format=%gd %gs %T")
    under_way = ("MERGE_HEAD", "REBASE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge")
    return {
        "HEAD": git(root, "rev-parse", "--symbolic-full-name", "HEAD") + git(root, "rev-parse", "HEAD"),
        "branches and tags": refs.splitlines(),
        "index": git(root, "ls-files", "-s").splitlines(),
        "stash": stashes.splitlines(),
        "configuration": sorted(line for line in config if line.startswith(("branch.", "remote."))),
        "under way": [name for name in under_way if (root / ".git" / name).exists()],
        "work trees": [
            line for line in git(root, "worktree", "list", "--porcelain").splitlines() if "HEAD" not in line
        ],
        "what the origin has": git(root, "ls-remote", "origin").splitlines(),
    }


# -- comparing -------------------------------------------------------------------------------------------------


def compared(kind: Kind, row: Row, plain: Result, governed: Result) -> Outcome:
    """What a row came to."""
    if any(AWAY.search(text) for text in plain.errors) and any(plain.codes):
        return Outcome(kind.name, row, "skipped", "the registry is away")
    if governed.refused:
        return Outcome(kind.name, row, "refused", governed.refused)
    differing = list(differences(plain, governed))
    if not differing:
        return Outcome(kind.name, row, "same")
    told = "\n".join(governed.told)
    return Outcome(kind.name, row, "dropped" if told else "broken", "\n".join([*differing, told]).strip())


def differences(plain: Result, governed: Result) -> Iterator[str]:
    """What came out otherwise, in words."""
    if plain.codes != governed.codes:
        said = governed.errors[-1][-300:] if governed.errors else ""
        yield f"exit codes {plain.codes} became {governed.codes}: {said}"
    for one, other in zip(plain.printed, governed.printed, strict=False):
        if one != other:
            yield f"printed {one[-200:]!r} became {other[-200:]!r}"
    for name, before in plain.state.items():
        now = governed.state[name]
        if before != now:
            yield f"{name}: {short(before, now)}"


def short(one: Any, other: Any) -> str:
    """Where two values of a state differ."""
    if isinstance(one, str):
        return f"{one!r} became {other!r}"
    mine, theirs = entries(one), entries(other)
    missing, extra = sorted(mine - theirs)[:3], sorted(theirs - mine)[:3]
    return f"missing {missing} ({len(mine - theirs)}), extra {extra} ({len(theirs - mine)})"


def entries(state: dict[str, Any] | list[Any]) -> set[str]:
    """The entries of a state, each as a text."""
    return {str(one) for one in (state.items() if isinstance(state, dict) else state)}


def lacks(names: Sequence[str]) -> str:
    """What a row needs and this machine lacks."""
    missing = [n for n in names if n not in ("pypi", "npm registry") and shutil.which(n) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


def run(bench: Bench, rows: Sequence[Row], *, quick: bool, kinds: Sequence[str] = ()) -> Iterator[Outcome]:
    """Every row in each of its kinds, or in those that `kinds` names."""
    for kind in (kind for kind in KINDS if not kinds or kind.name in kinds):
        mine = [row for row in rows if kind.name in (row.kinds[:1] if quick else row.kinds)]
        why = lacks(kind.needs)
        if why or not mine:
            yield from (Outcome(kind.name, row, "skipped", why) for row in mine)
            continue
        try:
            bench.make(kind)
        except RuntimeError as error:
            if not AWAY.search(str(error)):
                raise
            yield from (Outcome(kind.name, row, "skipped", "the registry is away") for row in mine)
            continue
        for row in mine:
            if why := lacks(row.needs):
                yield Outcome(kind.name, row, "skipped", why)
                continue
            bench.copied(kind, row)
            plain = bench.plain(kind, row)
            bench.copied(kind, row)
            yield compared(kind, row, plain, bench.governed(kind, row))


# -- the page --------------------------------------------------------------------------------------------------


def summary(found: Sequence[Outcome]) -> str:
    """The counts, in one line."""
    counts = {
        word: sum(one.word == word for one in found) for word in ("same", "refused", "dropped", "broken", "skipped")
    }
    return (
        f"{len(found)} commands: {counts['same']} the same, {counts['refused']} refused before they ran, "
        f"{counts['dropped']} partly dropped and told, {counts['broken']} broken silently, {counts['skipped']} skipped"
    )


WORDS = {
    "same": "the same",
    "refused": "refused before it ran",
    "dropped": "partly dropped, and told",
    "broken": "comes out otherwise",
    "skipped": "not run",
}

HEAD = """# Everyday commands in enforce

Each row was run twice on equal copies of a repository: once as it is, and once as a shell call of an agent in enforce,
under an intent with a fair scope, contained where Remit has it contained.
*The same* means: the same exit codes, output (without times and ids), working tree, ignored files (by name, but for
compiled Python), HEAD, branches, tags, index, stash, work trees, upstreams, and the same commits on the remote.

`make everyday` runs the table anew and writes this page; `benchmarks/everyday_*.py` hold the kinds and the rows.
"""


def page(found: Sequence[Outcome]) -> str:
    """The page that shows the table."""
    lines = [HEAD, f"{summary(found)}.\n", "| command | repository | outcome |", "| --- | --- | --- |"]
    for row in ROWS:
        mine = [one for one in found if one.row is row]
        for word in dict.fromkeys(one.word for one in mine):
            some = [one for one in mine if one.word == word]
            why = "; ".join(dict.fromkeys(reason(one) for one in some if reason(one)))
            outcome = f"{WORDS[word]}: {why}" if why else WORDS[word]
            lines.append(f"| {row.title} | {', '.join(one.kind for one in some)} | {outcome} |")
    return "\n".join(lines) + "\n"


def reason(one: Outcome) -> str:
    """Why a row did not run, with the way that works where Remit refused it."""
    if one.word == "refused":
        said = [line for line in one.detail.splitlines() if not line.startswith(("What happened", "Why:"))]
        return " ".join(said).replace("|", "\\|")
    return one.detail if one.word == "skipped" else ""


def show(one: Outcome) -> None:
    """Print one row, with what is to be said of it."""
    print(f"{one.word:8} {one.kind:9} {one.row.title}", flush=True)
    for line in one.detail.splitlines() if one.word != "same" else ():
        print(f"         | {line}", flush=True)


def main() -> int:
    """Run the table, print it, and end with 1 where it misses the bar."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--quick", action="store_true")
    asked.add_argument("--only", default="")
    asked.add_argument("--kind", default="")
    asked.add_argument("--write", type=Path)
    asked.add_argument("--list", action="store_true")
    options = asked.parse_args()
    if options.list:
        print("\n".join(row.title for row in ROWS))
        return 0
    rows = [row for row in ROWS if (row.quick or not options.quick) and options.only in row.title]
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="everyday-") as work:
        bench = Bench(Path(work).resolve())
        bench.enter()
        how = find_containment(bench.home, bench.temporary)
        if how.way != "overlay":
            print(f"THIS MACHINE HAS NO OVERLAY, NOTHING IS COMPARED: {how.remarks}")
            return 3
        with bench.origin():
            for one in run(bench, rows, quick=options.quick, kinds=options.kind.split(",") if options.kind else ()):
                found.append(one)
                show(one)
    print(summary(found))
    if options.write:
        options.write.write_text(page(found))
    bad = sum(one.word in ("broken", "dropped") for one in found)
    return int(bad > 0 or sum(one.word == "refused" for one in found) > MAX_REFUSED)


if __name__ == "__main__":
    raise SystemExit(main())
