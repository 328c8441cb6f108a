"""The hook client, where agents find it whatever becomes of the environment that Remit was installed into."""

import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from remit.wiring.insertions import as_object
from remit.workspace.intents_file import write_atomically

FOLDER = ".local/share/remit/bin"
"""Below HOME."""
NAME = "hook.py"
FILES = (NAME, "hook", "hook.conf")
"""What may stand there: this client, the compiled one, and what they read."""

_OURS = re.compile(r"(?:/remit_hook/__main__\.py|/share/remit/bin/[^/'\"\s|]+)['\"]* [\w-]+ (?:pre|post|note) \|\| ")


class NoClient(RuntimeError):
    """This installation of Remit has no hook client in it."""


def client_path(home: Path) -> Path:
    """Where the client is copied to."""
    return home / FOLDER / NAME


def client_words(home: Path) -> str:
    """The shell words that start the client, quoted. Raises NoClient where the path is no text."""
    path = str(client_path(home))
    try:
        f"{sys.executable}{path}".encode()
    except UnicodeEncodeError as error:
        raise NoClient(f"{path!r} is not UTF-8, and no settings file can name it") from error
    return f"{shlex.quote(sys.executable)} -I -S -E {shlex.quote(path)}"


def install_client(home: Path) -> str:
    """Copy the client and give the shell words that start it. A copy that is current is left alone.

    Raises OSError, NoClient.
    """
    words = client_words(home)
    if not is_current(home):
        path = client_path(home)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, shipped(), 0o644)
    return words


def is_current(home: Path) -> bool:
    """Whether the copy is there and the one of this version. Raises NoClient."""
    path = client_path(home)
    return path.is_file() and path.read_bytes() == shipped()


def remove_client(home: Path) -> None:
    """Take the client away, and the folders that it leaves empty. Raises OSError."""
    place = home / FOLDER
    for name in FILES:
        (place / name).unlink(missing_ok=True)
    for folder in (place, place.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def shipped() -> bytes:
    """The client of this installation. Raises NoClient."""
    found = find_spec("remit_hook")
    for folder in (found.submodule_search_locations if found else None) or ():
        path = Path(folder) / "__main__.py"
        if path.is_file():
            return path.read_bytes()
    raise NoClient("this installation has no remit_hook/__main__.py; install Remit again")


def server_command() -> tuple[str, ...]:
    """What starts Remit's MCP server."""
    script = Path(sys.executable).with_name("remit")
    if script.is_file():
        return (str(script), "mcp")
    return (sys.executable, "-I", "-c", "from remit.cli import main; main()", "mcp")


def is_ours(item: object) -> bool:
    """Whether a hook handler of some settings runs our client, of whatever version and place."""
    command = (as_object(item) or {}).get("command")
    return isinstance(command, str) and _OURS.search(command) is not None
