"""Landlock: write access limited to some folders, for machines without bubblewrap.

Landlock cannot exclude a folder inside an allowed folder, nor prevent changes of permissions or times. Source:
Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h of Linux 6.18, read 2026-11. The file also
runs as a script in the process that becomes the command, and therefore imports no module of Remit.
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
"""Writing to files, removing and creating entries of any kind: the rights of the first version."""

RIGHTS_SINCE = {2: 1 << 13, 3: 1 << 14}  # by version: moving between folders; truncating files
SCOPES_SINCE = 6  # the first version with scopes; SCOPE_ABSTRACT_SOCKETS covers abstract sockets (unix(7))
SCOPE_ABSTRACT_SOCKETS = 1 << 0

REFUSED_EXIT_CODE = 126


def system_call(number: int, *arguments: object) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))


def abi_version() -> int:
    """Return the kernel's Landlock version; below 1 if unsupported."""
    if not sys.platform.startswith("linux"):
        return 0
    return system_call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(QUERY_VERSION))


def restrict_writes(folders: list[str]) -> None:
    """Limit writes of this process and its children to the folders. Raises OSError."""
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
    """Cut this process and its children off from foreign abstract sockets, if supported."""
    if abi_version() < SCOPES_SINCE:
        return
    attributes = struct.pack("=QQQ", 0, 0, SCOPE_ABSTRACT_SOCKETS)
    rules = system_call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    if rules >= 0 and ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        system_call(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint32(0))
        os.close(rules)


APART = "--apart"


def main(words: list[str]) -> None:
    """Become the command: `FOLDER… -- COMMAND…`, or `--apart -- COMMAND…` for one that writes as it did, but reaches no
    foreign abstract socket. Without the restriction of writes, the command does not run.
    """
    split = words.index("--")
    try:
        if words[:split] == [APART]:
            isolate_abstract_sockets()
        else:
            restrict_writes(words[:split])
        os.execvp(words[split + 1], words[split + 1 :])
    except OSError as error:
        sys.stderr.write(f"remit: {error}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else REFUSED_EXIT_CODE)


if __name__ == "__main__":
    main(sys.argv[1:])
