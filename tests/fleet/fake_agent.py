"""Agents that misbehave, each in its own way: `python fake_agent.py INTENT BEHAVIOUR…`, in a worktree of the intent.

The number of the intent says which behaviour is meant.
Where it matters, the work is done first: nothing of it may be lost.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

intent = sys.argv[1].lower()
behaviour = sys.argv[1 + int(intent.removeprefix("int-"))]


def git(*words: str) -> str:
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, flush=True)
    return done.stdout.strip()


def work() -> None:
    folder = Path("src") / intent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "made.py").write_text(f"made_by = {intent!r}\n")


def commit() -> None:
    git("add", "-A")
    git("-c", "user.name=Agent", "-c", "user.email=agent@example.org", "commit", "-qm", "mine")


work()
match behaviour:
    case "hangs":
        signal.pause()
    case "garbage":
        sys.stdout.buffer.write(os.urandom(1 << 16) + b"\xff\xfe\0" * 1000 + b"\n" + b"x" * (3 << 20) + b"\n")
        print('{"type": "result", "usage": {"input_tokens": 1' + "0" * 40 + ', "output_tokens": -5}, "num_turns": "x",')
        print('{"type": "result", "usage": {"input_tokens": 1' + "0" * 30 + '}, "total_cost_usd": -1e300}')
        print('{"type": "turn", "data": {"usage": [1, 2], "cost": 1e308}}', flush=True)
    case "daemon":
        subprocess.Popen(["sleep", "613"], start_new_session=True, stdin=subprocess.DEVNULL)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "614"])
            os._exit(0)
    case "commits":
        commit()
    case "pushes":
        commit()
        git("push", "origin", "HEAD:refs/heads/main")
        git("push", "--force", "origin", "HEAD:refs/heads/stolen")
    case "resets":
        commit()
        git("reset", "-q", "--hard", "HEAD~1")
    case "rewinds":
        git("reset", "-q", "--hard", git("rev-list", "--max-parents=0", "HEAD"))
        work()
    case "renames":
        git("branch", "-m", "mine")
    case "leaves":
        git("checkout", "-q", "--detach")
    case "deletes":
        branch = git("symbolic-ref", "HEAD")
        git("update-ref", "-d", branch)
    case "widens":
        git("sparse-checkout", "disable")
        for file in Path(".orchestration").glob("*.yaml"):
            file.write_text(file.read_text().replace("status: ", "status: DONE # "))
    case "assigns":
        file = Path(git("rev-parse", "--absolute-git-dir")) / "remit" / "assignment.json"
        try:
            file.write_text(file.read_text().replace("src/", ""))
        except OSError as error:
            print("refused:", error, flush=True)
        Path("README.md").write_text("not mine\n")
    case "misses":
        os.execvp("env", ["env", "no-such-agent"])
    case "crashes":
        os.kill(os.getpid(), 11)
    case "nothing":
        subprocess.run(["rm", "-r", "src"], check=True)
        git("checkout", "-q", ".")
    case _:
        raise ValueError(behaviour)
print("the end", flush=True)
