"""Places of a person's secrets, which no jail shows: what signs, logs in or pays, and what a person wrote elsewhere.

Mixed files stay in sight (`.npmrc`, `pip.conf`, `.gitconfig`, `.cargo/config.toml`): without them npm and pip ask the
public registry in place of the private one. Sources: the programs' own pages on files and variables, read 2026-11.
"""

import os
import stat
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.agents import ROWS
from remit.core.machine_paths import STATE_FOLDER
from remit.workspace.git.repository import list_tracked, prefix_in_repository
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox.jail import can_be_entered

EMPTY_FILE = f"{STATE_FOLDER}/sandbox/empty"
"""Relative to HOME: the file that stands in the place of hidden ones. `/dev/null` in a jail is no file to be opened."""

SECRET_PLACES = (
    # Browsers: cookies, and the keys of paired pages of the console.
    *(".mozilla", ".librewolf", ".waterfox", ".zen", ".floorp", ".var/app", ".config/mozilla", ".config/chromium*"),
    *(".config/google-chrome*", ".config/BraveSoftware", ".config/vivaldi*", ".config/microsoft-edge*"),
    *(".config/opera*", "snap/firefox", "snap/chromium", "snap/brave", "snap/opera", "snap/thunderbird"),
    # Keyrings, and keys that sign.
    *(".ssh", ".gnupg/private-keys-v1.d", ".gnupg/secring.gpg", ".local/share/keyrings", ".local/share/kwalletd"),
    *(".password-store", ".config/sops", ".config/op", ".config/1Password", ".config/Bitwarden*", "snap/bitwarden"),
    *(".config/KeePassXC", ".config/keepassxc"),
    # Cloud.
    *(".aws", ".config/gcloud", ".azure", ".kube", ".docker", ".terraform.d", ".vault-token", ".config/rclone"),
    *(".rclone.conf", ".oci", ".fly", ".config/containers/auth.json", ".config/doctl", ".config/hcloud", ".boto"),
    ".s3cfg",
    # Forges and registries. The two folders of git's cache hold a socket that answers with a login.
    *(".config/gh", ".config/glab-cli", ".config/hub", ".git-credentials", ".config/git/credentials"),
    *(".cache/git/credential", ".git-credential-cache", ".netrc", "_netrc", ".pypirc", ".cargo/credentials"),
    *(".cargo/credentials.toml", ".gem/credentials", ".config/composer/auth.json", ".composer/auth.json"),
    # Agents' logins.
    *(f"{row.config_folder}/{name}" for row in ROWS.values() for name in row.login_files),
    ".config/github-copilot",
    # Histories of what a person typed.
    *(".bash_history", ".zsh_history", ".zhistory", ".histfile", ".history", ".sh_history", ".python_history"),
    *(".local/share/fish/fish_history", ".node_repl_history", ".psql_history", ".mysql_history"),
    *(".sqlite_history", ".rediscli_history"),
    # Mail and chat.
    *(".thunderbird", ".config/evolution", ".local/share/evolution", ".msmtprc", ".fetchmailrc", ".config/Slack"),
    *(".config/discord", ".config/Signal", ".config/Element", ".config/teams*", ".local/share/TelegramDesktop"),
    *(".purple", ".weechat", ".irssi"),
    # Wallets.
    *(".bitcoin", ".litecoin", ".dogecoin", ".ethereum/keystore", ".electrum", ".zcash", ".monero"),
    *(".config/solana", ".config/Exodus", ".config/Ledger Live"),
)
"""Relative to HOME; the last name may be a pattern. Where possible a whole folder is hidden: a file that its program
writes anew while a command runs comes into sight.
"""

VISIBLE_NAMES: Mapping[str, tuple[str, ...]] = {
    ".ssh": ("config", "config.d", "known_hosts*", "*.pub", "allowed_signers"),
    ".aws": ("config",),
    ".config/gcloud": ("configurations", "active_config", "properties"),
    ".docker": ("cli-plugins",),
    ".terraform.d": ("plugins", "plugin-cache", "checkpoint_*"),
}
"""What stays in sight in a hidden folder."""

MOVED_FOLDERS: Mapping[str, str] = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
    "GNUPGHOME": ".gnupg",
    "PASSWORD_STORE_DIR": ".password-store",
    "CLOUDSDK_CONFIG": ".config/gcloud",
    "AZURE_CONFIG_DIR": ".azure",
    "DOCKER_CONFIG": ".docker",
    "GH_CONFIG_DIR": ".config/gh",
    "GLAB_CONFIG_DIR": ".config/glab-cli",
    "CARGO_HOME": ".cargo",
    "COMPOSER_HOME": ".composer",
    "ZDOTDIR": "",
    **{name: row.config_folder for row in ROWS.values() for name in row.login_variables},
    **{name: row.config_folder.removesuffix(below) for row in ROWS.values() for name, below in (row.folder_variable,)},
}
"""Environment variables that move a folder of the table."""

FILE_VARIABLES = (
    *("AWS_SHARED_CREDENTIALS_FILE", "KUBECONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "RCLONE_CONFIG", "NETRC"),
    *("REGISTRY_AUTH_FILE", "HISTFILE"),
)
"""Environment variables with the path of a secret file, or with several of them."""

LOGIN_FILES = tuple({name: None for row in ROWS.values() for name in row.login_files})
"""Logins in the settings folder of an agent, where `remit init` found the folder elsewhere than below HOME."""


class SecretPlaces(Struct, frozen=True):
    """Existing secret places by their real paths: folders and files to hide, and what stays in sight in a folder."""

    folders: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    visible: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        return (*self.folders, *self.files)


class SecretSearch(Struct, frozen=True):
    """What decides which places exist, and which stay in sight.

    `variables` are environments: the agent's as its client told them, and Remit's own. `kept` are the folders that the
    jail is for: none lies hidden, nor does a file that git tracks in `root`. `shown` are places that a person lets
    commands see.
    """

    home: Path
    variables: Sequence[Mapping[str, str]] = ()
    moved_agents: Sequence[str] = ()
    root: Path | None = None
    tracked: frozenset[str] = frozenset()
    kept: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()
    ssh_agent: bool = False

    def find(self) -> SecretPlaces:
        """Return the places to hide. Raises OSError where a folder cannot be listed."""
        folders, files, visible = dict[Path, None](), dict[Path, None](), list[Path]()
        # Strings, and each folder looked at once: this is on the way of every contained command.
        real_home, real_folders, entered = os.path.realpath(self.home), dict[str, str](), dict[str, bool]()
        for path, patterns in self.list_named():
            folder, _, name = path.rpartition("/")
            if folder not in real_folders:
                real_folders[folder] = os.path.realpath(folder)
            found = f"{real_folders[folder]}/{name}"
            if name in ("", ".", "..") or os.path.islink(found):  # noqa: PTH114
                found = os.path.realpath(path)
            try:
                kind = stat.S_IFMT(os.stat(found).st_mode)  # noqa: PTH116
            except OSError:  # what nobody can look at from here, no command of this user can either
                continue
            # An odd value of a variable may make HOME or `/` of a place.
            if kind not in (stat.S_IFDIR, stat.S_IFREG) or found.count("/") < 2 or is_inside(real_home, found):
                continue
            named, real, above = Path(path), Path(found), found.rpartition("/")[0]
            if any(each.is_relative_to(shown) for shown in self.shown for each in (named, real)):
                continue
            if above not in entered:
                entered[above] = can_be_entered(real.parent)
            if not entered[above]:
                continue
            if kind == stat.S_IFREG:
                if not self.is_kept(real):
                    files[real] = None
                continue
            inside = [real / shown.relative_to(named) for shown in self.shown if shown.is_relative_to(named)]
            inside += [shown for shown in self.shown if shown.is_relative_to(real)]
            if self.holds_kept(real):
                self.split_folder(real, patterns, inside, folders, files)
            elif not self.is_kept(real):
                folders[real] = None
                visible += (*list_visible(real, patterns), *(path for path in inside if os.path.lexists(path)))
        tops = set(map(str, folders))
        return SecretPlaces(
            tuple(path for path in folders if not lies_below(str(path), tops)),
            tuple(path for path in files if not lies_below(str(path), tops)),
            tuple(dict.fromkeys(visible)),
        )

    def list_named(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        moved = [("", str(self.home))]
        for variables in self.variables:
            known = ((prefix, variables.get(name, "")) for name, prefix in MOVED_FOLDERS.items())
            moved += [(prefix, value) for prefix, value in known if value.startswith("/")]
        for prefix, folder in dict.fromkeys(moved):
            for name in SECRET_PLACES:
                rest = name.removeprefix(f"{prefix}/") if prefix else name
                if prefix and name == prefix:
                    rest = ""
                elif prefix and rest == name:
                    continue
                visible = VISIBLE_NAMES.get(name, ())
                if name == ".ssh" and self.ssh_agent:
                    visible = (*visible, "agent")
                yield from ((path, visible) for path in match_last_name(f"{folder}/{rest}".rstrip("/")))
        for path in self.list_named_files():
            # A file of the workspace that a variable names is the workspace's.
            is_own = self.root is not None and is_inside(os.path.realpath(path), str(self.root))
            if os.path.lexists(path) and not is_own:
                yield path, ()

    def list_named_files(self) -> Iterator[str]:
        for variables in self.variables:
            for name in FILE_VARIABLES:
                yield from (path for path in variables.get(name, "").split(os.pathsep) if path.startswith("/"))
        yield from (f"{folder}/{name}" for folder in self.moved_agents for name in LOGIN_FILES)

    def is_kept(self, path: Path) -> bool:
        if (
            self.root is not None
            and path.is_relative_to(self.root)
            and str(path.relative_to(self.root)) in self.tracked
        ):
            return True
        return path in self.kept

    def holds_kept(self, folder: Path) -> bool:
        is_above = any(path != folder and path.is_relative_to(folder) for path in self.kept)
        if is_above or self.root is None or not folder.is_relative_to(self.root):
            return is_above
        start = f"{folder.relative_to(self.root)}/"
        return any(path.startswith(start) for path in self.tracked)

    def split_folder(
        self,
        folder: Path,
        patterns: tuple[str, ...],
        inside: Sequence[Path],
        folders: dict[Path, None],
        files: dict[Path, None],
    ) -> None:
        """Add what is secret in a folder that has to stay as a whole, since something kept lies in it."""
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            path = Path(entry.path)
            if matches(entry.name, patterns) or self.is_kept(path) or path in inside or entry.is_symlink():
                continue  # what a link leads to lies elsewhere, and is no place of the table
            if not entry.is_dir():
                files[path] = None
            elif self.holds_kept(path) or any(shown.is_relative_to(path) for shown in inside):
                self.split_folder(path, (), inside, folders, files)
            else:
                folders[path] = None


def find_secret_places(search: SecretSearch, workspace: Workspace) -> SecretPlaces:
    """Return the places to hide from a command of a workspace. Files of a workspace that is the home folder, or holds
    it, stay in sight if git tracks them: their content is in the repository. Raises OSError, GitError.
    """
    found, root = search.find(), workspace.root
    inside = [path.relative_to(root).as_posix() for path in found.paths if path.is_relative_to(root)]
    if not inside or workspace.common_dir is None:
        return found
    prefix = prefix_in_repository(workspace)
    tracked = list_tracked(workspace, [prefix + path for path in inside])
    return replace(search, tracked=frozenset(path.removeprefix(prefix) for path in tracked if path)).find()


def match_last_name(path: str) -> Iterator[str]:
    if "*" not in path:
        if os.path.lexists(path):
            yield path
        return
    folder, _, pattern = path.rpartition("/")
    with suppress(OSError):
        yield from (f"{folder}/{name}" for name in os.listdir(folder) if fnmatchcase(name, pattern))  # noqa: PTH208


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def list_visible(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for name in os.listdir(folder) if patterns else ():  # noqa: PTH208
        if matches(name, patterns):
            real = Path(os.path.realpath(folder / name))
            if not real.is_relative_to(folder) or matches(real.relative_to(folder).parts[0], patterns):
                yield folder / name


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def lies_below(path: str, folders: Container[str]) -> bool:
    while path := path.rpartition("/")[0]:
        if path in folders:
            return True
    return False


def make_empty_file(home: Path) -> Path:
    """Return the file that stands in the place of hidden ones: empty, and of mode 0600. Raises OSError."""
    path = home / EMPTY_FILE
    with suppress(OSError):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode) and status.st_mode & 0o777 == 0o600 and status.st_size == 0:
            return path
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"empty.{os.getpid()}.{os.urandom(4).hex()}")
    made.touch(mode=0o600, exist_ok=False)
    made.rename(path)
    return path
