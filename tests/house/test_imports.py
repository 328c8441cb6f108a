"""What importing costs: nothing for the library, C modules only for the client, light modules only for the hook."""

import ast
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import remit
import remit_hook
from conftest import run_git
from sources import list_modules, name_source

SOURCE = Path(remit.__file__).parent
CLIENT = Path(remit_hook.__file__).with_name("__main__.py")
HEAVY = {
    "acp",
    "anyio",
    "ast_grep_py",
    "asyncio",
    "authlib",
    "click",
    "cryptography",
    "genai_prices",
    "httpx",
    "httpx2",
    "joserfc",
    "keyring",
    "mcp",
    "mcp_types",
    "prompt_toolkit",
    "pydantic",
    "pydantic_ai",
    "rich",
    "ruamel",
    "tree_sitter",
}
READ_ONLY_IF_CHANGED = {"yaml"}

NEW_MODULES = "import sys; before = set(sys.modules); {act}; print(*sorted(set(sys.modules) - before))"
HOOK = """\
import json, sys
from remit.cli import main
sys.argv[1:] = ["hook", "claude-code", "pre"]
try:
    main()
except SystemExit as ended:
    print(json.dumps({"code": ended.code or 0, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def run(*words: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """A fresh interpreter; nothing of this one's path or settings."""
    return subprocess.run([sys.executable, *words], cwd=cwd, input=stdin, capture_output=True, text=True, check=True)


def test_importing_remit_does_nothing(tmp_path: Path, home: Path) -> None:
    before = set(home.iterdir())
    done = run("-I", "-B", "-c", NEW_MODULES.format(act="import remit"), cwd=tmp_path)
    assert done.stdout.split() == ["remit"]
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())
    assert set(home.iterdir()) == before


def test_the_client_imports_c_modules_only(tmp_path: Path) -> None:
    act = f"exec(compile(open({str(CLIENT)!r}).read(), 'client', 'exec'), {{'__name__': 'client'}})"
    done = run("-I", "-S", "-E", "-c", NEW_MODULES.format(act=act), cwd=tmp_path)
    assert set(done.stdout.split()) <= {"posix", "_socket"}


@pytest.mark.parametrize("name", ["posix", "_socket"])
def test_what_the_client_may_import_is_written_in_c(name: str) -> None:
    found = find_spec(name)
    assert found is not None
    assert found.origin == "built-in" or (found.origin or "").endswith((".so", ".dylib"))


def hook(folder: Path) -> tuple[dict[str, object], set[str]]:
    """The hook's answer to a Write in `folder`, and the modules it took."""
    payload = {
        "session_id": "s",
        "cwd": str(folder),
        "hook_event_name": "PreToolUse",
        "tool_name": "Write",
        "tool_use_id": "toolu_1",
        "tool_input": {"file_path": str(folder / "src" / "new.py"), "content": "x = 1\n"},
    }
    done = run("-c", HOOK, cwd=folder, stdin=json.dumps(payload))
    told = json.loads(done.stderr.splitlines()[-1])
    assert told["code"] == 0
    assert [name for name in told["modules"] if name.startswith(("remit_agent", "remit_fleet"))] == []
    return json.loads(done.stdout or "{}"), {name.partition(".")[0] for name in told["modules"]}


def test_the_hook_says_nothing_and_takes_little_where_nothing_is_governed(repository: Path) -> None:
    answer, modules = hook(repository)
    assert answer == {}
    assert not modules & (HEAVY | READ_ONLY_IF_CHANGED)
    assert run_git(repository, "status", "--porcelain") == ""
    assert not (repository / ".git" / "remit").exists()


def test_the_hook_takes_little_where_it_decides(repository: Path) -> None:
    run("-m", "remit", "init", "--yes", "--no-agents", "--mode", "enforce", cwd=repository)
    run("-m", "remit", "intent", "new", "Names", "--scope", "src/**", cwd=repository)
    hook(repository)
    answer, modules = hook(repository)
    assert "MISSING_OR_INVALID_INTENT" in json.dumps(answer)
    assert not modules & (HEAVY | READ_ONLY_IF_CHANGED)


WARM = """\
import json, sys
from pathlib import Path
from remit.console.control import ConsoleControl
from remit.servers.daemon import Daemon
from remit.servers.environment import make_environment
from remit.servers.hook import HookFrame, answer
root, home = sys.argv[1:]
daemon = Daemon(Path(home), "1", ConsoleControl(Path(home)))
daemon.warm_up(root, lambda: None)
before = set(sys.modules)
for tool, given in (("Write", {"file_path": root + "/src/a.py", "content": ""}), ("Bash", {"command": "ls"})):
    for kind, event in (("pre", "PreToolUse"), ("post", "PostToolUse")):
        call = {"hook_event_name": event, "tool_name": tool, "tool_input": given, "tool_use_id": tool}
        payload = json.dumps({"session_id": "s", "cwd": root, **call}).encode()
        answer(payload, HookFrame("claude-code", root, kind), make_environment({}), daemon.gates)
print(*sorted(set(sys.modules) - before))
"""


def test_the_first_calls_of_a_daemon_import_nothing_more(repository: Path, home: Path) -> None:
    run("-m", "remit", "init", "--yes", "--no-agents", "--mode", "enforce", cwd=repository)
    run("-m", "remit", "intent", "new", "Names", "--scope", "src/**", cwd=repository)
    new = run("-c", WARM, str(repository), str(home), cwd=repository).stdout.split()
    assert [name for name in new if name.startswith("remit") or name in READ_ONLY_IF_CHANGED] == []


def test_help_imports_nothing_but_the_table_of_commands(tmp_path: Path) -> None:
    act = "import remit.cli.root"
    found = set(run("-B", "-c", NEW_MODULES.format(act=act), cwd=tmp_path).stdout.split())
    rooms = {
        "remit",
        "remit.cli",
        "remit.cli.root",
        "remit.cli.screen",
        "remit.extensions",
        "remit.servers",
        "remit.servers.environ_checks",
    }
    assert {name for name in found if name.partition(".")[0] == "remit"} == rooms
    assert not found & ((HEAVY | {"msgspec"}) - {"click"})


def test_a_question_about_lines_imports_neither_gate_nor_agents(tmp_path: Path) -> None:
    act = "import remit.cli.blame.blame"
    found = set(run("-B", "-c", NEW_MODULES.format(act=act), cwd=tmp_path).stdout.split())
    rooms = {".".join(name.split(".")[:2]) for name in found if name.startswith("remit.")}
    assert rooms == {
        f"remit.{room}" for room in ("cli", "core", "extensions", "ledger", "provenance", "servers", "workspace")
    }
    assert not found & ((HEAVY | {"concurrent.futures", "remit.core.redaction"}) - {"click"})


@pytest.mark.parametrize("package", [p for p in list_modules() if p.name == "__init__.py"], ids=lambda p: p.parent.name)
def test_a_package_exports_what_it_says_and_no_more(package: Path) -> None:
    body = ast.parse(package.read_text("utf-8")).body
    said = next((ast.literal_eval(n.value) for n in body if isinstance(n, ast.Assign) and names_all(n)), None)
    imported = [a.asname or a.name for n in body if isinstance(n, ast.ImportFrom) for a in n.names]
    if said is None:
        assert not imported, "a package that re-exports names them in __all__"
        return
    made = {n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)} | assigned(body)
    if "__getattr__" in made:  # loaded at its first use: for type checkers it stands where they alone look
        typed = [inner for n in body if isinstance(n, ast.If) for inner in n.body if isinstance(inner, ast.ImportFrom)]
        imported += [a.asname or a.name for n in typed for a in n.names]
    assert len(set(said)) == len(said)
    assert set(said) <= made | set(imported)


def names_all(statement: ast.Assign) -> bool:
    """Whether this assigns `__all__`."""
    return any(isinstance(t, ast.Name) and t.id == "__all__" for t in statement.targets)


def assigned(body: list[ast.stmt]) -> set[str]:
    """The names that a module assigns."""
    plain = {t.id for n in body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    return plain | {n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}


def test_the_gate_is_there_for_programs_and_loaded_when_it_is_asked_for(tmp_path: Path) -> None:
    loaded = "import remit.gate, sys; before = 'remit.gate.gate' in sys.modules; from remit.gate import Gate"
    done = run("-I", "-B", "-c", f"{loaded}; print(before, Gate.__module__, Gate.open('.').is_governed)", cwd=tmp_path)
    assert done.stdout.split() == ["False", "remit.gate.gate", "False"]
    done = run("-I", "-B", "-c", NEW_MODULES.format(act="import remit.gate"), cwd=tmp_path)
    assert "remit.gate" in done.stdout.split()
    assert "msgspec" not in done.stdout.split()


def test_one_file_imports_the_library_of_models() -> None:
    libraries = ("pydantic_ai", "anthropic", "openai", "google", "boto3")
    importing = {
        name_source(path)
        for path in list_modules()
        if any(library in (text := path.read_text("utf-8")) for library in libraries)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom | ast.Import)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        if name.partition(".")[0] in libraries
    }
    assert importing == {"remit_agent/models/library.py"}
