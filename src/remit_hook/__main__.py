"""The pure-Python hook client, for machines without the C client: `hook AGENT pre|post|note < payload`.

Like `client.c`, it passes bytes on and parses nothing. It imports C modules only: with `-I -S` the interpreter starts
in 8 ms, and `import socket` alone takes as long again. If neither daemon nor fresh process answers, a *pre* call is
denied (exit 2); the fallback in the agent's settings then decides by the repository's mode.
"""

import posix
import sys
from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket
from posix import close, dup2, environ, execv, fork, getcwd, open, pipe, read, unlink, write

O_RDONLY = 0
O_PATH = 0o10000000  # of Linux; elsewhere a daemon at such a path is not reached
MAX_ADDRESS_BYTES = 103  # of macOS; Linux takes 107
ACK_TIMEOUT_S = 2.0
BLOCK_BYTES = 1 << 16
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
FORWARDED_VARIABLES = (
    *(b"REMIT_INTENT", b"TMPDIR"),
    *(b"XDG_CONFIG_HOME", b"XDG_DATA_HOME", b"XDG_CACHE_HOME", b"GNUPGHOME"),
    *(b"PASSWORD_STORE_DIR", b"CLOUDSDK_CONFIG", b"AZURE_CONFIG_DIR", b"DOCKER_CONFIG"),
    *(b"GH_CONFIG_DIR", b"GLAB_CONFIG_DIR", b"CARGO_HOME", b"CLAUDE_CONFIG_DIR"),
    *(b"CODEX_HOME", b"GEMINI_CONFIG_DIR", b"COMPOSER_HOME", b"ZDOTDIR"),
    *(b"AWS_SHARED_CREDENTIALS_FILE", b"KUBECONFIG", b"GOOGLE_APPLICATION_CREDENTIALS", b"RCLONE_CONFIG"),
    *(b"NETRC", b"REGISTRY_AUTH_FILE", b"HISTFILE"),
)
"""The intent, the temporary folder, and where programs keep secrets (`secret_places.py`)."""
FRESH_ARGUMENTS = (b"-I", b"-c", b"from remit.cli import main; main()", b"hook")


def read_all(descriptor: int) -> bytes:
    """Read up to the end of file, or up to the maximum size of a payload."""
    blocks = [b""]
    size = 0
    while size <= MAX_PAYLOAD_BYTES:
        block = read(descriptor, BLOCK_BYTES)
        if not block:
            break
        blocks.append(block)
        size += len(block)
    return b"".join(blocks)


def read_configuration(folder: str) -> list[bytes]:
    """Return version, interpreter, socket and timeout; without a file, this interpreter and no socket."""
    try:
        file = open(folder + "/hook.conf", O_RDONLY)
    except OSError:
        return [b"", sys.executable.encode("utf-8", "surrogateescape"), b"", b"0"]
    lines = read_all(file).split(b"\n")
    close(file)
    return lines


def build_request(version: bytes, words: list[bytes], payload: bytes) -> bytes:
    """Return the request, in the format of `servers/frames.py`."""
    variables = [name + b"=" + environ[name] for name in FORWARDED_VARIABLES if environ.get(name)]
    try:
        folder = getcwd().encode("utf-8", "surrogateescape")
    except OSError:
        folder = b"/"
    return b"\0".join([b"RMT1", version, *words, folder, *variables]) + b"\0\0" + payload


def ask_daemon(path: bytes, request: bytes, wait_s: float) -> int | None:
    """Ask the daemon. Returns the exit code of a complete answer, else None."""
    reply = receive_reply(path, request, wait_s, removes_stuck=True)
    if reply is None:
        return None
    code, out, err = reply
    write_all(2, err)
    write_all(1, out)
    return code


def receive_reply(
    path: bytes, request: bytes, wait_s: float, *, removes_stuck: bool = False
) -> tuple[int, bytes, bytes] | None:
    """Return exit code, standard output and standard error of a complete answer, else None. `removes_stuck` removes the
    socket of a daemon that does not accept the call in time.
    """
    line = socket(AF_UNIX, SOCK_STREAM)
    line.settimeout(ACK_TIMEOUT_S)
    reply = b""
    try:
        if not send_request(line, path, request, removes_stuck):
            return None
        line.settimeout(wait_s)
        while block := line.recv(BLOCK_BYTES):
            reply += block
            line.settimeout(ACK_TIMEOUT_S)
    except OSError:
        return None
    out, err = int.from_bytes(reply[1:5], "big"), int.from_bytes(reply[5:9], "big")
    if len(reply) < 9 or len(reply) != 9 + out + err:
        return None
    return reply[0], reply[9 : 9 + out], reply[9 + out :]


def shorten(path: bytes) -> bytes:
    """Return a path through the descriptor of its folder, for one that is too long for an address. Raises OSError."""
    folder, name = path.rsplit(b"/", 1)
    return b"/proc/self/fd/%d/%s" % (open(folder, O_PATH), name)


def send_request(line: socket, path: bytes, request: bytes, removes_stuck: bool) -> bool:
    """Send the request and return True if the daemon accepts the call. Raises OSError.

    The socket of a stuck daemon is removed: the next call need not wait, and the daemon ends when it wakes.
    """
    try:
        line.connect(path if len(path) <= MAX_ADDRESS_BYTES else shorten(path))
        line.sendall(request)
        line.shutdown(SHUT_WR)
        return line.recv(1) == b"A"
    except (TimeoutError, BlockingIOError):
        if removes_stuck:
            unlink(path)
        raise


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of `content`; a closed reader is no error."""
    try:
        while content:
            content = content[write(descriptor, content) :]
    except OSError:
        return


def ask_fresh(interpreter: bytes, words: list[bytes], payload: bytes) -> int:
    """Replace this process by `remit hook AGENT CLASS` with the payload on stdin. Returns only on failure."""
    ours, theirs = pipe()
    if fork() == 0:
        close(ours)
        close(1)
        close(2)
        write_all(theirs, payload)
        sys.exit(0)
    close(theirs)
    dup2(ours, 0)
    try:
        execv(interpreter, [interpreter, *FRESH_ARGUMENTS, *words, b"--client"])
    except OSError as error:
        sys.stderr.write(f"remit: {interpreter!r} cannot be started ({error.strerror}); run: remit doctor --fix\n")
    return 2 if words[1] == b"pre" else 0


def exec_fresh(interpreter: bytes, words: list[bytes]) -> int:
    """Replace this process by `remit exec`, which runs a command contained. Returns only on failure."""
    try:
        execv(interpreter, [interpreter, *FRESH_ARGUMENTS[:-1], b"exec", *words])
    except OSError as error:
        sys.stderr.write(f"remit: {interpreter!r} cannot be started ({error.strerror}); run: remit doctor --fix\n")
    return 4


def main() -> int:
    if sys.argv[1:3] == ["exec", "--session"]:
        interpreter = read_configuration(sys.argv[0].rpartition("/")[0])[1]
        return exec_fresh(interpreter, [word.encode("utf-8", "surrogateescape") for word in sys.argv[2:]])
    if len(sys.argv) != 3:
        sys.stderr.write("usage: hook AGENT pre|post|note < payload\n")
        return 2
    words = [word.encode("utf-8", "surrogateescape") for word in sys.argv[1:]]
    version, interpreter, path, wait_s, *_ = read_configuration(sys.argv[0].rpartition("/")[0])
    payload = read_all(0)
    code = ask_daemon(path, build_request(version, words, payload), float(wait_s)) if path else None
    return ask_fresh(interpreter, words, payload) if code is None else code


def run() -> None:
    """Answer, and exit without tearing the interpreter down, which would take a millisecond."""
    posix.__dict__["_exit"](main())


if __name__ == "__main__":
    run()
