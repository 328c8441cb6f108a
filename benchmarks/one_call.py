"""What one tool call runs through: files, functions, calls and SQL statements of both hooks, each in a fresh process.

`python benchmarks/one_call.py [--files] [CHECKOUT ...]` prints a row per call; with several checkouts the rows of each
stand beside those of the others. A checkout needs its own `.venv`. `--files` lists the files of each call; `--json`
prints the figures of this checkout as one object.
Code that runs while a module is imported does not count.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

TRACER = """
import json, os, sqlite3, sys

files, functions, statements = set(), set(), []
counts = {"calls": 0, "imports": 0}
root = os.environ["ONE_CALL_ROOT"]

def trace(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_name == "<module>":
        counts["imports"] += 1
    elif event == "return" and code.co_name == "<module>":
        counts["imports"] -= 1
    elif event == "call" and not counts["imports"] and code.co_filename.startswith(root):
        counts["calls"] += 1
        files.add(code.co_filename[len(root) + 1:])
        functions.add(f"{code.co_filename}:{code.co_firstlineno}")

def connect(*arguments, **options):
    connection = plain_connect(*arguments, **options)
    connection.set_trace_callback(lambda text: statements.append(text.split(None, 1)[0].upper()))
    return connection

plain_connect, sqlite3.connect = sqlite3.connect, connect
sys.argv = ["remit", "hook", os.environ["ONE_CALL_AGENT"], os.environ["ONE_CALL_EVENT"]]
from remit.cli import main
sys.setprofile(trace)
try:
    main()
finally:
    sys.setprofile(None)
    with open(os.environ["ONE_CALL_RESULT"], "w") as result:
        json.dump([sorted(files), sorted(functions), counts["calls"], statements], result)
"""
AGENT = "claude-code"
READS = ("SELECT", "PRAGMA")


@dataclass(frozen=True)
class Trace:
    """What one hook, or both hooks of a call, ran through."""

    files: frozenset[str]
    functions: frozenset[str]
    calls: int
    sql_reads: int
    sql_writes: int

    def __add__(self, other: "Trace") -> "Trace":
        """Join the traces of two hooks: a file and a function count once, the rest adds up."""
        return Trace(
            self.files | other.files,
            self.functions | other.functions,
            self.calls + other.calls,
            self.sql_reads + other.sql_reads,
            self.sql_writes + other.sql_writes,
        )


@dataclass(frozen=True)
class Bench:
    """A governed repository, and the Python of the checkout that governs it."""

    python: Path
    folder: Path
    home: Path

    def run_cli(self, *words: str) -> None:
        """Run one `remit` command in the repository."""
        command = [self.python, "-c", "from remit.cli import main; main()", *words]
        subprocess.run(command, cwd=self.folder, env=self.environ(), check=True, capture_output=True)

    def environ(self) -> dict[str, str]:
        """Return the environment: this one, with a home folder of its own."""
        return {**os.environ, "HOME": str(self.home)}

    def trace_hook(self, event: str, payload: dict[str, object]) -> Trace:
        """Answer one hook payload in a fresh process; `event` is `pre` or `post`."""
        root = subprocess.run(
            [self.python, "-c", "import remit; print(next(iter(remit.__path__)))"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        result = self.home / "trace.json"
        added = {
            "ONE_CALL_ROOT": root,
            "ONE_CALL_AGENT": AGENT,
            "ONE_CALL_EVENT": event,
            "ONE_CALL_RESULT": str(result),
        }
        body = json.dumps(payload).encode()
        done = subprocess.run(
            [self.python, "-c", TRACER],
            input=body,
            cwd=self.folder,
            env={**self.environ(), **added},
            capture_output=True,
        )
        if done.returncode:
            raise SystemExit(f"the {event} hook answered {done.returncode}: {done.stderr.decode()}")
        files, functions, calls, statements = json.loads(result.read_text())
        reads = sum(word in READS for word in statements)
        return Trace(frozenset(files), frozenset(functions), calls, reads, len(statements) - reads)

    def trace_call(self, tool: str, number: int, command: str | None = None, **given: str) -> Trace:
        """Trace both hooks of one tool call; between them the tool does its work."""
        payload: dict[str, object] = {
            "session_id": "s1",
            "cwd": str(self.folder),
            "tool_name": tool,
            "tool_input": given if command is None else {"command": command},
            "tool_use_id": f"call-{number}",
            "transcript_path": "/nowhere.jsonl",
        }
        before = self.trace_hook("pre", {**payload, "hook_event_name": "PreToolUse"})
        if command is not None:
            subprocess.run(command, shell=True, cwd=self.folder, check=True)
        elif "content" in given:
            Path(given["file_path"]).write_text(given["content"])
        answer = {"stdout": "", "stderr": "", "interrupted": False} if command else {"filePath": given.get("file_path")}
        after = self.trace_hook("post", {**payload, "hook_event_name": "PostToolUse", "tool_response": answer})
        return before + after


def govern_repository(python: Path, base: Path) -> Bench:
    """Make a repository in enforce mode whose session `s1` has selected an intent over `src/`."""
    bench = Bench(python, base / "repository", base / "home")
    (bench.folder / "src").mkdir(parents=True)
    bench.home.mkdir()
    (bench.folder / "src" / "app.py").write_text("x = 1\n" * 50)
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=b", "-c", "user.email=b@x", "commit", "-qm", "1")):
        subprocess.run(["git", *words], cwd=bench.folder, check=True)
    bench.run_cli("init", "--mode", "enforce", "--yes")
    (bench.folder / ".orchestration" / "active_intents.yaml").write_text(
        'version: "1.0"\nactive_intents:\n  - id: INT-001\n    name: app\n    status: IN_PROGRESS\n'
        '    owned_scope: ["src/**"]\n'
    )
    return bench


def trace_calls(python: Path) -> dict[str, Trace]:
    """Trace one Write, one Bash and one Read in a repository of their own."""
    with tempfile.TemporaryDirectory() as base:
        bench = govern_repository(python, Path(base))
        app = str(bench.folder / "src" / "app.py")
        bench.trace_hook("pre", select_intent(bench.folder))
        return {
            "Write": bench.trace_call("Write", 1, file_path=app, content="y = 2\n" * 50),
            "Bash": bench.trace_call("Bash", 2, command="echo z = 3 > src/other.py"),
            "Read": bench.trace_call("Read", 3, file_path=app),
        }


def select_intent(folder: Path) -> dict[str, object]:
    """Return the payload by which the session selects its intent."""
    return {
        "session_id": "s1",
        "cwd": str(folder),
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "remit intent select INT-001"},
        "tool_use_id": "select",
        "transcript_path": "/nowhere.jsonl",
    }


def count_trace(trace: Trace) -> dict[str, int]:
    """Return a call's figures by name."""
    return {
        "files": len(trace.files),
        "functions": len(trace.functions),
        "calls": trace.calls,
        "sql_reads": trace.sql_reads,
        "sql_writes": trace.sql_writes,
    }


def print_traces(name: str, traces: dict[str, Trace], with_files: bool) -> None:
    """Print a row per call, and its files by room where they are asked for."""
    for call, trace in traces.items():
        figures = "  ".join(f"{figure:>5} {label.replace('_', ' ')}" for label, figure in count_trace(trace).items())
        print(f"{name:<28} {call:<6} {figures}")
        if with_files:
            for path in sorted(trace.files):
                print(f"    {path}")


def main() -> None:
    """Trace the calls of each checkout that the command line names, or of the one that runs this."""
    checkouts = [word for word in sys.argv[1:] if not word.startswith("--")]
    pythons = {Path(word).name: Path(word).absolute() / ".venv/bin/python" for word in checkouts}
    if "--json" in sys.argv:
        print(json.dumps({call: count_trace(trace) for call, trace in trace_calls(Path(sys.executable)).items()}))
        return
    for name, python in (pythons or {"this checkout": Path(sys.executable)}).items():
        print_traces(name, trace_calls(python), "--files" in sys.argv)


if __name__ == "__main__":
    main()
