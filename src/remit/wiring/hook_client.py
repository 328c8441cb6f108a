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
from remit.core.machine_paths import OFFERS_FOLDER, STATE_FOLDER
from remit.core.untrusted_input import as_object
from remit.wiring.manifest import SettingsError
from remit.workspace.safe_files import write_atomically

CLIENT_FOLDER = ".local/share/remit/bin"  # relative to HOME
CACHE_FOLDER, CLIENT_NAME, CLIENT_SETTINGS, CLIENT_MODULE = "__pycache__", "hook", "hook.conf", "hook_client"
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

ABILITIES = ("mcp", "exec")
"""Last lines of the client's settings: it can serve MCP clients, and run contained commands. `cli` and `gate` look."""

WAIT_TIMEOUT_S = 595  # time that a client waits for an answer: the timeout requested from agents less 5 s
COMPILE_TIMEOUT_S = 60.0
MAX_SHEBANG_CHARS = 126  # length of a first line that every kernel reads completely

_CLIENT_COMMAND = re.compile(
    r"(?:/remit_hook/__main__\.py|/share/remit/bin/[^/'\"\s|]+)['\"]* [\w-]+ (?:pre|post|note) \|\| "
)


class NoClient(SettingsError):
    """A Remit installation without the hook client."""

    is_unavailable = True


def client_path(home: Path) -> Path:
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
    """Install the client unless it is current and as `noted`, the hash of the last one; return its shell command."""
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
    # A built-in `_socket` has no file, and is imported by name.
    places = {"SOURCE": str(module), "COMPILED": compiled, "SOCKETS": getattr(_socket, "__file__", "")}
    script = re.sub("|".join(places), lambda found: ascii(places[found[0]]), LOADER_SCRIPT)
    direct = f"#!{sys.executable} -ISE\n"
    if len(direct) <= MAX_SHEBANG_CHARS and not set(sys.executable) & set(" \t\n"):
        write_atomically(path, f"{direct}{script}".encode(), 0o755)
        return
    beside = path.with_name(f"{CLIENT_NAME}.py")
    write_atomically(beside, script.encode(), 0o644)
    words = f"{shlex.quote(sys.executable)} -I -S -E {shlex.quote(str(beside))}"
    write_atomically(path, f'#!/bin/sh\nexec {words} "$@"\n'.encode(), 0o755)


def render_client_settings(home: Path) -> bytes:
    """Return the client's settings: version, interpreter, socket, timeout; then source hash and abilities."""
    made_from = sha256(read_shipped_file("client.c") + read_shipped_file("__main__.py") + LOADER_SCRIPT.encode())
    lines = (version("remit"), sys.executable, str(home / SOCKET_PATH), str(WAIT_TIMEOUT_S), made_from, *ABILITIES)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def is_client_current(home: Path) -> bool:
    try:
        text = (home / CLIENT_FOLDER / CLIENT_SETTINGS).read_bytes()
    except OSError:
        return False
    return text == render_client_settings(home) and client_path(home).is_file()


def hash_client(home: Path) -> str:
    found = [file.read_bytes() for file in list_client_files(home / CLIENT_FOLDER) if file.is_file()]
    return sha256(b"\0".join(found)) if found else ""


def list_client_files(folder: Path) -> tuple[Path, ...]:
    compiled = sorted((folder / CACHE_FOLDER).glob(f"{CLIENT_MODULE}.*.pyc"))
    return (*(folder / name for name in (CLIENT_NAME, f"{CLIENT_NAME}.py", f"{CLIENT_MODULE}.py")), *compiled)


def is_client_altered(home: Path, noted: str) -> bool:
    return noted != "" and hash_client(home) != noted


def install_binary(path: Path) -> bool:
    package, fresh = find_package(), path.with_name(f".{path.name}.new")
    shipped, source = package / "bin" / f"hook-{sys.platform}-{platform.machine().lower()}", package / "client.c"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if shipped.is_file():
        shutil.copyfile(shipped, fresh)
        fresh.chmod(0o755)
    elif compiler and source.is_file():  # statically if possible
        any(run_quietly(compiler, "-O1", *link, "-o", fresh, source).returncode == 0 for link in (["-static"], []))
    try:
        # Without arguments a client that runs here prints the usage and exits with 2.
        ended = run_quietly(fresh)
        if ended.returncode == 2 and b"usage" in ended.stderr:
            fresh.replace(path)
            return True
    except OSError:
        pass
    fresh.unlink(missing_ok=True)
    return False


def run_quietly(*words: str | Path) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMPILE_TIMEOUT_S, check=False)


def remove_client(home: Path) -> None:
    """Remove the client, the daemon's files and emptied folders. A daemon without a socket ends itself."""
    folder, state = home / CLIENT_FOLDER, home / STATE_FOLDER
    own = (home / SOCKET_PATH, state / "daemon.lock", state / "daemon.log")
    offers = home / OFFERS_FOLDER
    for path in (*list_client_files(folder), folder / CLIENT_SETTINGS, *own, *offers.glob("*")):
        path.unlink(missing_ok=True)
    for emptied in (folder / CACHE_FOLDER, folder, folder.parent, offers, state / "governed", state / "spool", state):
        if emptied.is_dir() and not any(emptied.iterdir()):
            emptied.rmdir()


def find_package() -> Path:
    found = find_spec("remit_hook")
    for folder in (found.submodule_search_locations if found else None) or ():
        return Path(folder)
    raise NoClient("this installation has no remit_hook; install Remit again")


def read_shipped_file(name: str) -> bytes:
    path = find_package() / name
    if not path.is_file():
        raise NoClient(f"this installation has no remit_hook/{name}; install Remit again")
    return path.read_bytes()


def server_command(home: Path) -> tuple[str, ...]:
    """Return the command that agents start as their MCP server."""
    return (str(client_path(home)), "mcp")


def is_own_handler(item: object) -> bool:
    command = as_object(item).get("command")
    return isinstance(command, str) and _CLIENT_COMMAND.search(command) is not None
