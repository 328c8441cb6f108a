"""What of the environment would mislead git, taken out. Nothing is imported here but built-in modules."""

import os

KEPT = ("GIT_CONFIG_NOSYSTEM", "GIT_SSL_CAINFO")


def forget_gits_variables() -> None:
    """Drop git's own variables, and the parts of PATH that mean the current folder.

    In a git hook the variables name another repository; and a repository may hold a program called `git`.
    """
    os.environ["PATH"] = os.pathsep.join(p for p in os.get_exec_path() if p.startswith("/"))
    for name in [n for n in os.environ if n.startswith("GIT_") and n not in KEPT]:
        del os.environ[name]
