"""Identity of the machine (a key pair) and of the repository."""

import secrets
from pathlib import Path

from remit.core.machine_paths import STATE_FOLDER
from remit.workspace.files.atomic import create_once, write_atomically
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace


def machine_id(home: Path) -> str:
    """Return the first 12 hex digits of the machine's public key, creating the key at first use. Raises OSError."""
    name = home / f"{STATE_FOLDER}/machine"
    try:
        return name.read_text("ascii").strip()
    except FileNotFoundError:
        return create_machine_key(name.parent)


def create_machine_key(folder: Path) -> str:
    """Create the Ed25519 key (0600) and its name. Of concurrent callers, the first wins."""
    # cryptography costs 40 ms to import, and a machine creates its key once.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    create_once(folder / "key", Ed25519PrivateKey.generate().private_bytes_raw(), 0o600)
    key = Ed25519PrivateKey.from_private_bytes((folder / "key").read_bytes())
    name = key.public_key().public_bytes_raw().hex()[:12]
    write_atomically(folder / "machine", f"{name}\n".encode("ascii"))
    return name


def repository_id(workspace: Workspace) -> str:
    """Return the root commit, or a random name before the first commit. Stored in the state folder, never changed.

    Raises OSError, GitError.
    """
    kept = workspace.state / "repository"
    try:
        return kept.read_text("ascii").strip()
    except FileNotFoundError:
        pass
    found = find_root_commit(workspace) or secrets.token_hex(20)
    workspace.state.mkdir(parents=True, exist_ok=True)
    create_once(kept, f"{found}\n".encode("ascii"))
    return kept.read_text("ascii").strip()


def find_root_commit(workspace: Workspace) -> str | None:
    """Return the root commit that HEAD reaches; None before the first commit. Raises GitError if git does not run."""
    if workspace.common_dir is None:
        return None
    try:
        roots = Git(workspace.root).text("rev-list", "--max-parents=0", "HEAD").splitlines()
    except GitError as error:
        if error.code is None:  # git could not be asked: no reason to give the repository another name for ever
            raise
        return None
    return roots[-1] if roots else None
