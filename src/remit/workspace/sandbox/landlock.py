"""Landlock: writing below some folders only, where bubblewrap does not run.

It cannot take a folder out of one that it gave, nor hold back a change of permissions or times.
Source: Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h of Linux 6.18, read 2026-11.
This file also runs as a script, in the process that becomes the command: so it imports nothing of Remit's.
"""

import ctypes
import os
import struct
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PR_SET_NO_NEW_PRIVS = 38
QUERY_VERSION = 1
PATH_BENEATH = 1
WRITE_RIGHTS = (1 << 1) | sum(1 << bit for bit in range(4, 13))
"""Writing to files, removing and making whatever kind: what the first version knows."""

RIGHTS_SINCE = {2: 1 << 13, 3: 1 << 14}
"""Moving between folders; cutting files short."""

SCOPES_SINCE = 6
"""The version that knows scopes, and the scope of sockets that have a name and no file (unix(7), "abstract")."""
SCOPE_ABSTRACT_SOCKETS = 1 << 0

REFUSED_EXIT_CODE = 126


def system_call(number: int, *arguments: object) -> int:
    """One system call; -1 where it failed."""
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))


def abi_version() -> int:
    """The version that the kernel speaks; below 1 where it has none."""
    if not sys.platform.startswith("linux"):
        return 0
    return system_call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(QUERY_VERSION))


def restrict_writes(folders: list[str]) -> None:
    """From here on this process, and all that it starts, writes below these only. Raises OSError."""
    handled = WRITE_RIGHTS | sum(right for version, right in RIGHTS_SINCE.items() if abi_version() >= version)
    attributes = struct.pack("=Q", handled)
    rules = system_call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    if rules < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    for folder in folders:
        here = os.open(folder, os.O_PATH | os.O_CLOEXEC)
        allowed = handled if os.path.isdir(folder) else handled & (1 << 1 | 1 << 14)  # noqa: PTH112
        rule = struct.pack("=Qi", allowed, here)
        if system_call(ADD_RULE, ctypes.c_int(rules), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint32(0)) != 0:
            raise OSError(ctypes.get_errno(), "landlock_add_rule", folder)
        os.close(here)
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if system_call(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0)) != 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")


def isolate_abstract_sockets() -> None:
    """From here on this process, and all that it starts, speaks to no abstract socket of others, where that works."""
    if abi_version() < SCOPES_SINCE:
        return
    attributes = struct.pack("=QQQ", 0, 0, SCOPE_ABSTRACT_SOCKETS)
    rules = system_call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    if rules >= 0 and ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        system_call(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
        os.close(rules)


def main(words: list[str]) -> None:
    """Become the command: `FOLDER… -- COMMAND…`. What cannot be restricted does not run."""
    split = words.index("--")
    try:
        restrict_writes(words[:split])
        os.execvp(words[split + 1], words[split + 1 :])
    except OSError as error:
        sys.stderr.write(f"remit: {error}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else REFUSED_EXIT_CODE)


if __name__ == "__main__":
    main(sys.argv[1:])
