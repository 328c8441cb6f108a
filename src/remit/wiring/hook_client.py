"""Installation of the hook client, outside the environment that Remit is installed into.

In order of preference: a binary from the wheel, a binary compiled here from `client.c`, the pure-Python client.
"""

import _socket
import platform
import py_compile
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from remit.core.diff.contents import sha256
from remit.core.json_guards import as_object
from remit.core.machine_paths import STATE_FOLDER
from remit.workspace.files.atomic import write_atomically

CLIENT_FOLDER = ".local/share/remit/bin"
"""Relative to HOME."""

CACHE_FOLDER = "__pycache__"

CLIENT_NAME, CLIENT_SETTINGS, CLIENT_MODULE = "hook", "hook.conf", "hook_client"
LOADER_SCRIPT = f"""import sys
from posix import open, read
known = {{"__name__": "{CLIENT_MODULE}"}}
try:
    import _imp, marshal
    from _frozen_importlib import ModuleSpec
    from _frozen_importlib_external import MAGIC_NUMBER
    code = read(open(COMPILED, 0), 1 << 18)
    if code[:4] != MAGIC_NUMBER:
        raise ImportError
    found = _imp.create_dynamic(ModuleSpec("_socket", None, origin=SOCKETS))
    _imp.exec_dynamic(found)
    sys.modules["_socket"], code = found, marshal.loads(code[16:])
except Exception:
    code = read(open(SOURCE, 0), 1 << 18)
exec(code, known)
known["run"]()
"""
"""The script that agents start. The client's code is compiled once, because Python compiles a script at each start.

The code and the module `_socket` are loaded from known paths: the import search takes as long as the import.
"""

SOCKET_PATH = f"{STATE_FOLDER}/daemon.sock"
"""The daemon's socket, relative to HOME; `servers.daemon` uses the same path."""

LAUNCHES_LINE = "exec"
"""Last line of the client's settings: the client can run contained commands. `gate` looks for the line."""

WAIT_TIMEOUT_S = 595
"""Time that a client waits for an answer: the timeout requested from agents less 5 s."""

COMPILE_TIMEOUT_S = 60.0

MAX_SHEBANG_CHARS = 126
"""Length of a first line that every kernel reads completely."""

_CLIENT_COMMAND = re.compile(
    r"(?:/remit_hook/__main__\.py|/share/remit/bin/[^/'\"\s|]+)['\"]* [\w-]+ (?:pre|post|note) \|\| "
)


class NoClient(RuntimeError):
    """A Remit installation without the hook client."""


def client_path(home: Path) -> Path:
    """Return the path of the client, the same for every kind of client."""
    return home / CLIENT_FOLDER / CLIENT_NAME


def client_words(home: Path) -> str:
    """Return the quoted shell command of the client. Raises NoClient if the path is not UTF-8."""
    path = str(client_path(home))
    try:
        f"{sys.executable}{path}".encode()
    except UnicodeEncodeError as error:
        raise NoClient(f"{path!r} is not UTF-8, and no settings file can name it") from error
    return shlex.quote(path)


def install_client(home: Path, noted: str = "") -> str:
    """Install the client and its settings unless they are current, and return the client's shell command.

    `noted` is the hash of the last installed client. Raises OSError, NoClient.
    """
    words = client_words(home)
    if not is_client_current(home) or is_client_altered(home, noted):
        folder = home / CLIENT_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        if not install_binary(folder / CLIENT_NAME):
            install_script(folder / CLIENT_NAME)
        write_atomically(folder / CLIENT_SETTINGS, render_client_settings(home), 0o644)
    return words


def install_script(path: Path) -> None:
    """Install the pure-Python client at `path`, run by this interpreter. Raises OSError, NoClient."""
    module = path.with_name(f"{CLIENT_MODULE}.py")
    write_atomically(module, read_shipped_file("__main__.py"), 0o644)
    compiled = str(path.with_name(CACHE_FOLDER) / f"{CLIENT_MODULE}.{sys.implementation.cache_tag}.pyc")
    py_compile.compile(str(module), compiled, doraise=True)
    script = render_loader(str(module), compiled)
    direct = f"#!{sys.executable} -ISE\n"
    if len(direct) <= MAX_SHEBANG_CHARS and not set(sys.executable) & set(" \t\n"):
        write_atomically(path, f"{direct}{script}".encode(), 0o755)
        return
    beside = path.with_name(f"{CLIENT_NAME}.py")
    write_atomically(beside, script.encode(), 0o644)
    words = f"{shlex.quote(sys.executable)} -I -S -E {shlex.quote(str(beside))}"
    write_atomically(path, f'#!/bin/sh\nexec {words} "$@"\n'.encode(), 0o755)


def render_loader(source: str, compiled: str) -> str:
    """Return the script for the given files. A built-in `_socket` is imported by name."""
    places = {"SOURCE": source, "COMPILED": compiled, "SOCKETS": getattr(_socket, "__file__", "")}
    return re.sub("|".join(places), lambda found: ascii(places[found[0]]), LOADER_SCRIPT)


def render_client_settings(home: Path) -> bytes:
    """Return the client's settings: version, interpreter, socket, timeout; then source hash and abilities."""
    made_from = sha256(read_shipped_file("client.c") + read_shipped_file("__main__.py") + LOADER_SCRIPT.encode())
    lines = (version("remit"), sys.executable, str(home / SOCKET_PATH), str(WAIT_TIMEOUT_S), made_from, LAUNCHES_LINE)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def is_client_current(home: Path) -> bool:
    """Return True if the client exists and belongs to this version. Raises NoClient."""
    try:
        text = (home / CLIENT_FOLDER / CLIENT_SETTINGS).read_bytes()
    except OSError:
        return False
    return text == render_client_settings(home) and client_path(home).is_file()


def hash_client(home: Path) -> str:
    """Return the SHA-256 of the client's files; empty if there is none. Raises OSError."""
    found = [file.read_bytes() for file in list_client_files(home / CLIENT_FOLDER) if file.is_file()]
    return sha256(b"\0".join(found)) if found else ""


def list_client_files(folder: Path) -> tuple[Path, ...]:
    compiled = sorted((folder / CACHE_FOLDER).glob(f"{CLIENT_MODULE}.*.pyc"))
    return (*(folder / name for name in (CLIENT_NAME, f"{CLIENT_NAME}.py", f"{CLIENT_MODULE}.py")), *compiled)


def is_client_altered(home: Path, noted: str) -> bool:
    """Return True if the client differs from the installed client; False for an unknown hash."""
    return noted != "" and hash_client(home) != noted


def install_binary(path: Path) -> bool:
    """Install a working binary, from the wheel or compiled. Returns False without such a binary."""
    found = find_package() / "bin" / f"hook-{sys.platform}-{platform.machine().lower()}"
    fresh = path.with_name(f".{path.name}.new")
    created = copy_binary(found, fresh) if found.is_file() else compile_client(fresh)
    if not (created and is_runnable(fresh)):
        fresh.unlink(missing_ok=True)
        return False
    fresh.replace(path)
    return True


def copy_binary(source: Path, target: Path) -> bool:
    shutil.copyfile(source, target)
    target.chmod(0o755)
    return True


def compile_client(target: Path) -> bool:
    """Compile the client, statically if possible. Returns False without a compiler or if it fails."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    source = find_package() / "client.c"
    if compiler is None or not source.is_file():
        return False
    return any(
        subprocess.run(
            [compiler, "-O2", *linking, "-o", target, source],
            capture_output=True,
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        ).returncode
        == 0
        for linking in (["-static"], [])
    )


def is_runnable(binary: Path) -> bool:
    """Return True if the binary runs here: without arguments a client prints the usage and exits with 2."""
    try:
        completed = subprocess.run(
            [binary], stdin=subprocess.DEVNULL, capture_output=True, timeout=COMPILE_TIMEOUT_S, check=False
        )
    except OSError:
        return False
    return completed.returncode == 2 and b"usage" in completed.stderr


def remove_client(home: Path) -> None:
    """Remove the client, the daemon's files and emptied folders. Raises OSError.

    A daemon without a socket ends itself.
    """
    folder, state = home / CLIENT_FOLDER, (home / SOCKET_PATH).parent
    own = (home / SOCKET_PATH, state / "daemon.lock", state / "daemon.log")
    for path in (*list_client_files(folder), folder / CLIENT_SETTINGS, *own):
        path.unlink(missing_ok=True)
    for emptied in (folder / CACHE_FOLDER, folder, folder.parent, state / "governed", state / "spool", state):
        if emptied.is_dir() and not any(emptied.iterdir()):
            emptied.rmdir()


def find_package() -> Path:
    """Return the folder of `remit_hook` in this installation. Raises NoClient."""
    found = find_spec("remit_hook")
    for folder in (found.submodule_search_locations if found else None) or ():
        return Path(folder)
    raise NoClient("this installation has no remit_hook; install Remit again")


def read_shipped_file(name: str) -> bytes:
    """Read a file of the client. Raises NoClient."""
    path = find_package() / name
    if not path.is_file():
        raise NoClient(f"this installation has no remit_hook/{name}; install Remit again")
    return path.read_bytes()


def server_command() -> tuple[str, ...]:
    script = Path(sys.executable).with_name("remit")
    if script.is_file():
        return (str(script), "mcp")
    return (sys.executable, "-I", "-c", "from remit.cli import main; main()", "mcp")


def is_own_handler(item: object) -> bool:
    """Return True if a hook handler runs Remit's client, of any version and place."""
    command = as_object(item).get("command")
    return isinstance(command, str) and _CLIENT_COMMAND.search(command) is not None
