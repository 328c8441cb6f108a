"""The thin way of a question: the words go to the daemon, and the answer comes back as bytes.

Only built-in modules and the hook client's are imported: with click the start would take longer than the answer. The
daemon declines a question that only the asking process can answer, and every error; then that process answers itself.
"""

import os
import sys

from remit_hook.__main__ import build_request, read_configuration, receive_reply, write_all

CLIENT_FOLDER = ".local/share/remit/bin"  # relative to HOME: the client's settings name version, interpreter and socket
ANSWER_TIMEOUT_S = 120.0
DECLINED_EXIT_CODE = 9  # exit code of a reply that leaves the question to a fresh process
UNKNOWN_COLUMNS = 80  # of a terminal that does not tell its width: it is one nevertheless
COMPARED_VARIABLES = (
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_NOSYSTEM",
    "TZ",
    "LANGUAGE",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_TIME",
)
"""Variables that git reads: where the daemon has others, it declines."""
SENT_VARIABLES = ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "TERM", "GIT_PAGER", "PAGER")
"""Variables that the answer's look depends on."""


def ask_daemon(words: list[str]) -> int | None:
    """Write the daemon's answer to the command `words` and return the exit code; None if there is none."""
    home = os.environ.get("HOME", "")
    version, interpreter, path, *_ = read_configuration(f"{home}/{CLIENT_FOLDER}")
    # Another environment's daemon may be another release.
    if not path or os.path.dirname(os.fsdecode(interpreter)) != os.path.dirname(sys.executable):  # noqa: PTH120
        return None
    try:
        columns = os.get_terminal_size(1).columns or UNKNOWN_COLUMNS
    except OSError:
        columns = 0  # a file or a pipe
    about = (str(columns), sys.stdout.encoding or "", find_git())
    variables = [f"{name}={os.environ[name]}" for name in (*COMPARED_VARIABLES, *SENT_VARIABLES) if name in os.environ]
    fields = (*about, str(len(variables)), *variables, *words)
    payload = b"".join(os.fsencode(field) + b"\0" for field in fields)
    request = build_request(version, [os.fsencode(words[0]), b"note"], payload)
    reply = receive_reply(path, request, ANSWER_TIMEOUT_S)
    if reply is None or reply[0] == DECLINED_EXIT_CODE:
        return None
    code, out, err = reply
    write_all(2, err)
    if columns:
        pager, _, out = out.partition(b"\0")
        if pager:
            from remit.cli.screen import show_in_pager  # only a terminal needs a pager

            show_in_pager(out, os.fsdecode(pager))
            return code
    write_all(1, out)
    return code


def find_git() -> str:
    """Return the git that this process would start; empty without one."""
    places = (f"{folder}/git" for folder in os.get_exec_path() if folder.startswith("/"))
    return next((place for place in places if os.access(place, os.X_OK)), "")
