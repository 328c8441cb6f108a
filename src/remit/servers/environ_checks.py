"""Checks of the process environment before any work: HOME must be set, and git's own variables are dropped.

Only built-in modules are imported here.
"""

import os


class NoHome(RuntimeError):
    """Missing HOME: Remit would write into a stranger's settings, key and state."""

    def __init__(self, value: str) -> None:
        said = f"HOME is {value!r}, no absolute path" if value else "HOME is not set"
        super().__init__(f"{said}, so whose settings and state to use is not known; set it, as in HOME=/home/you")


KEPT_VARIABLES = ("GIT_CONFIG_NOSYSTEM", "GIT_SSL_CAINFO")


def drop_git_variables() -> None:
    os.environ["PATH"] = os.pathsep.join([p for p in os.get_exec_path() if p.startswith("/")])
    for name in [n for n in os.environ if n.startswith("GIT_") and n not in KEPT_VARIABLES]:
        del os.environ[name]


def clean_environment() -> None:
    """Drop misleading variables from this process. Raises NoHome: the password database does not replace HOME, since a
    service or a build running as root has no person's home.
    """
    home = os.environ.get("HOME", "")
    if not home.startswith("/"):
        raise NoHome(home)
    drop_git_variables()
