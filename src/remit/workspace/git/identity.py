"""This machine's key and name, and the repository's."""

import os
import secrets
from pathlib import Path

from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace


def machine_id(home: Path) -> str:
    """The first 12 hex digits of this machine's public key; the key is made at first use.

    Raises OSError where the state folder cannot be written.
    """
    name = home / ".local/state/remit/machine"
    try:
        return name.read_text("ascii").strip()
    except FileNotFoundError:
        return create_machine_key(name.parent)


def create_machine_key(folder: Path) -> str:
    """Make the Ed25519 key (0600) and its name, once: who comes second takes what the first one made."""
    # cryptography costs 40 ms to import, and a machine needs this once in its life.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = folder / f"key.{secrets.token_hex(6)}"
    fresh.write_bytes(Ed25519PrivateKey.generate().private_bytes_raw())
    fresh.chmod(0o600)
    try:
        os.link(fresh, folder / "key")
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    key = Ed25519PrivateKey.from_private_bytes((folder / "key").read_bytes())
    name = key.public_key().public_bytes_raw().hex()[:12]
    written = folder / f"machine.{secrets.token_hex(6)}"
    written.write_text(name + "\n", "ascii")
    written.replace(folder / "machine")
    return name


def repository_id(workspace: Workspace) -> str:
    """The root commit; where there is none yet, a random name. Kept in the state folder: it never changes.

    Raises OSError, GitError.
    """
    kept = workspace.state / "repository"
    try:
        return kept.read_text("ascii").strip()
    except FileNotFoundError:
        pass
    found = find_root_commit(workspace) or secrets.token_hex(20)
    workspace.state.mkdir(parents=True, exist_ok=True)
    fresh = kept.with_name(f"repository.{os.getpid()}")
    fresh.write_text(found + "\n", "ascii")
    try:
        os.link(fresh, kept)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    return kept.read_text("ascii").strip()


def find_root_commit(workspace: Workspace) -> str | None:
    """The first root commit that HEAD reaches; None before the first. Raises GitError where git does not run."""
    if workspace.common_dir is None:
        return None
    try:
        roots = Git(workspace.root).text("rev-list", "--max-parents=0", "HEAD").splitlines()
    except GitError as error:
        if error.code is None:  # git could not be asked: no reason to give the repository another name for ever
            raise
        return None
    return roots[-1] if roots else None
