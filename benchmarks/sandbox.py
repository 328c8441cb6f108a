"""What containing a command costs: `.venv/bin/python benchmarks/sandbox.py`.

The launcher runs `true` in a repository of a thousand files, its daemon warm; beside it the same words of bubblewrap
run bare, and one hook call of the thin client. All three in turn, so that a slow machine shows the same ratio.
"""

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hook import client, daemon, payload, remit

from remit.core.call import SessionKey, ToolCall
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.run_command import make_sandbox_words
from remit.gate.gate import Gate
from remit.servers.environment import make_environment
from remit.workspace.sandbox import staging
from remit.workspace.sandbox.containment import find_containment
from remit.workspace.sandbox.secret_places import SECRET_PLACES, SecretSearch

ROUNDS = 40
FILES = 1000
COMMAND = "eval true"


def repository(at: Path, home: Path) -> Path:
    """A governed repository of a thousand files, in enforce."""
    (at / "src").mkdir(parents=True)
    for n in range(FILES):
        (at / "src" / f"m{n:04d}.py").write_text(f"x = {n}\n" * 20)
    for words in (("init", "-q"), ("add", "-A"), ("-c", "user.name=b", "-c", "user.email=b@x", "commit", "-qm", "1")):
        subprocess.run(["git", *words], cwd=at, check=True)
    remit(at, home, "init", "--mode", "enforce", "--yes", "--no-agents")
    remit(at, home, "intent", "new", "Names", "--scope", "src/**")
    return at


def ask(program: Path, folder: Path, call_id: str) -> list[str]:
    """One hook call; the words that the agent is given to run."""
    body = payload(folder, "PreToolUse", "Bash", call_id, command=COMMAND)
    done = subprocess.run([program, "claude-code", "pre"], input=body, cwd=folder, check=True, capture_output=True)
    given = json.loads(done.stdout)["hookSpecificOutput"]["updatedInput"]["command"]
    words = shlex.split(given)
    return [str(program), *words[1:-3], "sh", *words[-2:]]


def plant_secrets(home: Path) -> None:
    """Fifteen places that a jail hides, files and folders: as many as a developer's home has."""
    for number, name in enumerate(SECRET_PLACES[::7]):
        place = home / name.replace("*", "")
        path = place / "secret" if number % 2 else place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")


def bare(folder: Path) -> list[str]:
    """The words of bubblewrap that the daemon plans, as they run by themselves."""
    gate = Gate.open(folder, make_environment({}))
    around, workspace = gate.environment, gate.workspace
    place = staging.find_scratch_folder(workspace, around.home, around.temporary)
    staged = staging.create_staging(place, workspace, around.home, around.temporary, os.getpid())
    call = ToolCall("claude-code", SessionKey("s1"), "Bash", "execute", str(folder), command=COMMAND)
    program = find_containment(around.home, around.temporary).program
    return make_sandbox_words(ContainedCommand(gate, call), program, ["sh", "-c", COMMAND], staged, 1)


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def quiet(words: Sequence[str], folder: Path) -> None:
    subprocess.run(words, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def measured(program: Path, folder: Path) -> None:
    """The table."""
    plain = bare(folder)
    plant_secrets(Path.home())
    wrapper = bare(folder)
    found: list[float] = [timed(SecretSearch(Path.home()).find) for _ in range(ROUNDS)]
    without: list[float] = []
    alone: list[float] = []
    asking: list[float] = []
    whole: list[float] = []
    for n in range(ROUNDS + 3):
        given: list[str] = []
        asking.append(timed(lambda given=given, n=n: given.extend(ask(program, folder, f"c{n}"))))
        steps = [(without, plain), (alone, wrapper), (whole, given)]
        for times, words in steps if n % 2 else reversed(steps):
            times.append(timed(lambda words=words: quiet(words, folder)))
    series = (without, alone, asking, whole, found)
    start, wrap, call, all_of_it, search = (statistics.median(times[3:]) * 1000 for times in series)
    hiding = wrap - start + search
    print(f"bubblewrap with the same binds, `{COMMAND}`         {wrap:8.2f} ms")
    print(f"of it 15 secret places, found and hidden          {hiding:8.2f} ms   asked <= 3")
    print(f"one hook call of the thin client                  {call:8.2f} ms")
    print(f"the launcher, `{COMMAND}`, {FILES} files              {all_of_it:8.2f} ms")
    print(
        f"ratio to both, {ROUNDS} rounds, medians                  {all_of_it / (wrap + call):8.2f}      asked <= 1.3"
    )


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        base = Path(name).resolve()
        home = base / "home"
        home.mkdir()
        os.environ["HOME"] = str(home)
        program = client(base / "quick", home / ".local/state/remit/daemon.sock")
        if program is None or find_containment(home, Path(tempfile.gettempdir())).way != "overlay":
            sys.exit("there is no compiler here, or no overlay: nothing to measure")
        installed = home / ".local/share/remit/bin"
        installed.parent.mkdir(parents=True)
        installed.symlink_to(base / "quick")
        with (installed / "hook.conf").open("a") as settings:
            settings.write("made from\nexec\n")
        folder = repository(base / "repo", home)
        process = daemon(home)
        try:
            select = payload(folder, "PreToolUse", "Bash", "b", command="remit intent select INT-001")
            subprocess.run([program, "claude-code", "pre"], input=select, cwd=folder, check=True, capture_output=True)
            measured(program, folder)
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
