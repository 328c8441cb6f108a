"""The pure-Python hook client, for machines without the C client: `hook AGENT pre|post|note < payload`, or `hook mcp`.

Like `client.c`, it passes bytes on and parses nothing but an MCP client's lines. For a hook it imports C modules only:
with `-I -S` the interpreter starts in 8 ms, and `import socket` alone takes as long again. If neither daemon nor fresh
process answers, a *pre* call is denied (exit 2); the fallback in the agent's settings then decides by the mode.
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
    *(b"CODEX_HOME", b"GEMINI_CONFIG_DIR", b"GEMINI_CLI_HOME", b"QWEN_HOME", b"COMPOSER_HOME", b"ZDOTDIR"),
    *(b"AWS_SHARED_CREDENTIALS_FILE", b"KUBECONFIG", b"GOOGLE_APPLICATION_CREDENTIALS", b"RCLONE_CONFIG"),
    *(b"NETRC", b"REGISTRY_AUTH_FILE", b"HISTFILE"),
)
"""The intent, the temporary folder, and where programs keep secrets (`secret_places.py`)."""
PASSED_VARIABLES = (b"PATH", b"USER", b"LOGNAME", b"LANG", b"LC_ALL", b"LC_CTYPE", b"TZ", b"VIRTUAL_ENV")
"""What the commands need that Remit's tools run for the agent: `PASSED_VARIABLES` in `environment.py`."""

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
    names = FORWARDED_VARIABLES + (PASSED_VARIABLES if words[0] == b"mcp" else ())
    variables = [name + b"=" + environ[name] for name in names if environ.get(name)]
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


# -- mcp: see `relay` in client.c, which does the same -------------------------------------------------------

GRACE_S, PAUSE_S, LONGEST_PAUSE_S, GIVE_UP_S, START_S = 0.02, 0.02, 0.5, 30.0, 5.0
ATOMIC_BYTES, FULL_BYTES, READY_DESCRIPTOR = 4096, 1 << 20, 3
POLLIN, POLLOUT, BROKEN = 1, 4, 8 | 16 | 32
MSG_DONTWAIT = 0x40 if sys.platform == "linux" else 0x80
GREETING = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
TOO_LONG = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Remit: the line is too long"}}\n'
LOST = "Remit was started again during this call. It may have been carried out: look, then call again"


def as_object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


class Relay:
    """Relay between an MCP client on the standard streams and the process that the daemon keeps warm.

    What an offer answered (`begun`, `listed`) is said to the server afterwards, as it is after one that is gone: it
    hears the first words (`hello`) again, and the client does not hear its answer again (`is_replayed`).
    """

    def __init__(self, folder: str, settings: list[bytes] | None = None) -> None:
        """Take the settings of this folder's `hook.conf`, read again as often as a server is sought; or fixed ones."""
        # Imported here: no hook needs them, and the packages `json` and `select` take as long as a hook's call.
        from json import dumps, loads
        from select import poll
        from time import monotonic

        self.dumps, self.loads, self.poll, self.now = dumps, loads, poll, monotonic
        self.folder, self.is_fixed = folder, settings is not None
        self.settings = settings if settings is not None else read_configuration(folder)
        self.heard_from_client, self.heard_from_server, self.to_client, self.to_server = b"", b"", b"", b""
        self.waiting: list[bytes] = []
        self.calls: dict[str, tuple[object, str]] = {}
        self.hello, self.hello_id = b"", ""
        self.server: socket | None = None
        self.serves = self.has_served = self.begun = self.is_greeted = self.listed = self.is_replayed = False
        self.is_closing = self.is_shut = self.is_skipping = False
        self.offer: list[bytes] | None = None
        self.ready = -1
        self.asked_at = self.knocked_at = self.next_at = self.started_at = 0.0
        self.pause_s = PAUSE_S

    def read_line(self, line: bytes) -> dict[str, object]:
        """Return the message of a line; an empty one for what is none."""
        try:
            return as_object(self.loads(line))
        except (ValueError, RecursionError):
            return {}

    def answer(self, call: object, result: bytes) -> None:
        self.to_client += b'{"jsonrpc":"2.0","id":' + self.dumps(call).encode() + b',"result":' + result + b"}\n"

    # The offer

    def find_offer(self) -> list[bytes]:
        """Return the offer prepared for the workspace of this folder: the nearest one, and none beyond a repository."""
        if self.offer is None:
            self.offer = []
            try:
                at = posix.getcwdb()
            except OSError:
                return self.offer
            while at.startswith(b"/") and len(at) > 1:
                found = self.read_offer(at)
                if found or posix.access(at + b"/.git", 0):
                    self.offer = found
                    break
                at = at.rpartition(b"/")[0]
        return self.offer

    def read_offer(self, root: bytes) -> list[bytes]:
        name = 14695981039346656037
        for byte in root:
            name = (name ^ byte) * 1099511628211 % (1 << 64)
        try:
            file = open(self.settings[2].rpartition(b"/")[0] + b"/offers/%016x" % name, O_RDONLY)
        except OSError:
            return []
        lines = read_all(file).split(b"\n")
        close(file)
        return lines if len(lines) > 5 and lines[:2] == [self.settings[0], root] else []

    def answer_early(self, line: bytes) -> bool:
        """Answer a line without the server; return False where it has to wait."""
        said = self.read_line(line)
        method, call = said.get("method"), said.get("id")
        if method == "notifications/initialized":
            return self.begun
        if method is None or call is None:
            return method is None and call is not None  # it answers a server that is gone
        if method == "ping":
            self.answer(call, b"{}")
        elif method == "initialize" and (offer := self.find_offer()):
            wanted = str(as_object(said.get("params")).get("protocolVersion")).encode("utf-8", "replace")
            known = offer[2].split()
            version = wanted if wanted in known else known[0]
            self.begun = True
            self.answer(call, b'{"protocolVersion":"' + version + b'",' + offer[3])
        elif method == "tools/list" and self.begun and (offer := self.find_offer()):
            self.listed = True
            self.answer(call, offer[4])
        else:
            return False
        return True

    # The client's lines

    def read_client(self) -> None:
        block = read(0, BLOCK_BYTES)
        if not block:
            self.is_closing = True
            block = b"\n" if self.heard_from_client else b""  # a last line without an end
        if self.is_skipping:
            _, end, block = block.partition(b"\n")
            self.is_skipping = not end
        *lines, self.heard_from_client = (self.heard_from_client + block).split(b"\n")
        for line in lines:
            if line.strip():
                self.take(line)
        if len(self.heard_from_client) > MAX_PAYLOAD_BYTES:
            self.heard_from_client, self.is_skipping = b"", True
            self.to_client += TOO_LONG

    def take(self, line: bytes) -> None:
        said = self.read_line(line)
        if said.get("method") == "initialize" and "id" in said:
            self.hello, self.hello_id = line, self.dumps(said["id"])
            self.begun = self.is_greeted = self.listed = self.is_replayed = False
        if said.get("method") == "notifications/initialized":
            self.is_greeted = True
        if self.serves:
            self.pass_on(line)
        else:
            self.waiting.append(line)

    def pass_on(self, line: bytes) -> None:
        """Send a line to the server, and remember what it has to answer."""
        said = self.read_line(line)
        if said.get("method") is not None and said.get("id") is not None:
            self.calls[self.dumps(said["id"])] = said["id"], str(said["method"])
        self.to_server += line + b"\n"

    # The server

    def read_server(self, server: socket) -> None:
        try:
            block = server.recv(BLOCK_BYTES)
        except OSError:
            block = b""
        if not self.serves and block[:1] == b"A":
            self.begin()
            block = block[1:]
        elif not self.serves or not block:
            self.lose_server()
            return
        *lines, self.heard_from_server = (self.heard_from_server + block).split(b"\n")
        for line in lines:
            self.answer_client(line)

    def answer_client(self, line: bytes) -> None:
        said = self.read_line(line)
        if said.get("method") is None and "id" in said:
            name = self.dumps(said["id"])
            if name == self.hello_id:
                was_replayed, self.is_replayed, self.begun = self.is_replayed, False, True
                if was_replayed:  # the client has this answer
                    return
            self.listed |= self.calls.pop(name, (None, ""))[1] == "tools/list"
        self.to_client += line + b"\n"

    def begin(self) -> None:
        """Say to a server what the client said to the one before, and what waits."""
        self.serves = self.has_served = True
        self.pause_s, self.asked_at, self.offer = PAUSE_S, 0.0, None
        if self.begun and self.hello:
            self.to_server += self.hello + b"\n" + (GREETING if self.is_greeted else b"")
            self.is_replayed = True
            self.to_client += LIST_CHANGED if self.listed else b""
        waiting, self.waiting = self.waiting, []
        for line in waiting:
            self.pass_on(line)

    def lose_server(self) -> None:
        """Answer what the server was asked, but for the first words, which the next one hears again."""
        if self.server is not None:
            self.server.close()
        for name, (call, _) in self.calls.items() if self.serves else ():
            if name == self.hello_id and not self.begun:
                self.waiting += [self.hello, *([GREETING.strip()] if self.is_greeted else [])]
            else:
                error = {"jsonrpc": "2.0", "id": call, "error": {"code": -32000, "message": LOST}}
                self.to_client += self.dumps(error).encode() + b"\n"
        self.calls.clear()
        self.server, self.to_server, self.heard_from_server = None, b"", b""
        self.serves = self.is_shut = self.is_replayed = False
        self.wait_longer()

    def wait_longer(self) -> None:
        self.next_at = self.now() + self.pause_s
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)

    def find_server(self) -> None:
        """Knock at the daemon's door, or start one; serve in a process of this one where none comes."""
        now = self.now()
        self.asked_at = self.asked_at or now
        if now > self.asked_at + GIVE_UP_S:
            self.start_own_server()
            return
        if not self.is_fixed:
            self.settings = read_configuration(self.folder)
        line = socket(AF_UNIX, SOCK_STREAM)
        line.settimeout(ACK_TIMEOUT_S)
        path = self.settings[2]
        try:
            line.connect(path if len(path) <= MAX_ADDRESS_BYTES else shorten(path))
            line.sendall(build_request(self.settings[0], [b"mcp", b"note"], b""))
        except OSError:
            line.close()
            self.start_daemon()
            self.wait_longer()
        else:
            line.settimeout(None)
            self.server, self.knocked_at = line, now

    def start_daemon(self) -> None:
        """Start a daemon that is nobody's child, unless one was started a moment ago."""
        if self.ready >= 0 or (self.started_at and self.now() < self.started_at + START_S):
            return
        self.started_at = self.now()
        try:
            folder = posix.getcwdb()
        except OSError:
            folder = b"/"
        self.ready, writing = pipe()
        between = fork()
        if between:
            close(writing)
            posix.waitpid(between, 0)
            return
        try:
            if fork() == 0:
                posix.setsid()
                quiet = open("/dev/null", posix.O_RDWR)
                try:
                    log = self.settings[2].rpartition(b"/")[0] + b"/daemon.log"
                    said = open(log, posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND, 0o600)
                except OSError:
                    said = quiet
                for given, number in ((writing, READY_DESCRIPTOR), (quiet, 0), (quiet, 1), (said, 2)):
                    dup2(given, number)
                posix.closerange(READY_DESCRIPTOR + 1, 256)
                posix.chdir("/")
                words = [*FRESH_ARGUMENTS[:-1], b"daemon", b"--ready-fd", b"%d" % READY_DESCRIPTOR]
                words += [b"--first-folder", folder]
                execv(self.settings[1], [self.settings[1], *words])
        finally:
            posix.__dict__["_exit"](1)

    def start_own_server(self) -> None:
        from _socket import socketpair

        ours, theirs = socketpair(AF_UNIX, SOCK_STREAM, 0)
        if fork() == 0:
            try:
                dup2(theirs.fileno(), 0)
                dup2(theirs.fileno(), 1)
                execv(self.settings[1], [self.settings[1], *FRESH_ARGUMENTS[:-1], b"mcp", b"--direct"])
            finally:
                posix.__dict__["_exit"](1)
        theirs.close()
        self.server = ours
        self.begin()

    # Passing on

    def is_over(self) -> bool:
        """Return whether the client has its answers after its last line; the server hears that it was the last."""
        awaited = [method for _, method in self.calls.values() if method != "subscriptions/listen"]
        if not self.is_closing or self.waiting or self.to_server or awaited:
            return False
        if self.serves and self.server is not None and not self.is_shut:
            self.is_shut = True
            try:
                self.server.shutdown(SHUT_WR)
            except OSError:
                self.lose_server()
        return not self.serves and not self.to_client

    def time_left_ms(self, is_wanted: bool) -> int | None:
        """Return the milliseconds until something is due; None for never."""
        now, due = self.now(), 0.0
        if self.server is None:
            due = self.next_at if is_wanted else 0.0
        elif not self.serves:
            due = self.asked_at + GIVE_UP_S
            if self.waiting and now < self.knocked_at + GRACE_S:
                due = self.knocked_at + GRACE_S
        return max(0, int((due - now) * 1000) + 1) if due else None

    def run(self) -> int:
        """Pass lines on until the client is gone, or has its answers after its last line."""
        while True:
            is_wanted = bool(self.waiting) or not (self.has_served or self.is_closing)
            if not self.serves and self.asked_at and self.now() > self.asked_at + GIVE_UP_S:
                self.lose_server()
                self.start_own_server()
            if self.server is None and is_wanted and self.now() >= self.next_at:
                self.find_server()
            if not self.serves and (self.server is None or self.now() >= self.knocked_at + GRACE_S):
                self.waiting = [line for line in self.waiting if not self.answer_early(line)]
            if self.is_over():
                return 0
            if not self.pass_blocks(is_wanted):
                return 0

    def pass_blocks(self, is_wanted: bool) -> bool:
        """Wait, then read and write what does not block; return False once the client is gone."""
        waits, server = self.poll(), self.server
        if not self.is_closing and len(self.to_server) < FULL_BYTES:
            waits.register(0, POLLIN)
        waits.register(1, POLLOUT if self.to_client else 0)
        wanted = (POLLIN if len(self.to_client) < FULL_BYTES else 0) | (POLLOUT if self.to_server else 0)
        if server is not None and wanted:
            waits.register(server.fileno(), wanted)
        if self.ready >= 0:
            waits.register(self.ready, POLLIN)
        found = dict(waits.poll(self.time_left_ms(is_wanted)))
        if found.get(1, 0) & BROKEN:
            return False
        try:
            if found.get(1):
                self.to_client = self.to_client[write(1, self.to_client[:ATOMIC_BYTES]) :]
        except OSError:
            return False
        if server is not None and (events := found.get(server.fileno(), 0)):
            try:
                if events & POLLOUT:
                    self.to_server = self.to_server[server.send(self.to_server[:FULL_BYTES], MSG_DONTWAIT) :]
            except BlockingIOError:
                pass
            except OSError:
                self.lose_server()
            if self.server is server and events & (POLLIN | BROKEN):
                self.read_server(server)
        if 0 in found:
            self.read_client()
        if self.ready >= 0 and self.ready in found:
            listens = bool(read(self.ready, 1))
            close(self.ready)
            self.ready, self.next_at = -1, self.now() + (0.0 if listens else PAUSE_S)
            self.started_at = self.started_at if listens else 0.0  # another one was about to leave: the next may stay
        return True


def main() -> int:
    if sys.argv[1:] == ["mcp"]:
        return Relay(sys.argv[0].rpartition("/")[0]).run()
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
