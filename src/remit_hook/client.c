/* The hook client: hands an agent's payload to the daemon, or to a fresh process, and copies the answer out.
 *
 * Usage: hook AGENT pre|post|note < payload.  Beside it lies `hook.conf`: version, interpreter, socket and the
 * seconds that an answer may take, one a line.  It parses nothing.  Where nobody answers, `pre` exits 2 (every
 * agent takes that for a denial) and all else exits 0: a note that "fails" would loop or swallow a prompt.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { ACK_MS = 2000, LINES = 4, LIMIT = 64 * 1024 * 1024 + 1 };

struct text { char *at; size_t length, room; };

static char *conf[LINES]; /* version, interpreter, socket, seconds */
static const char *agent, *kind;

static int failed(const char *why) {
    fprintf(stderr, "remit: %s\n", why);
    return strcmp(kind, "pre") == 0 ? 2 : 0;
}

static int add(struct text *to, const void *from, size_t length) {
    if (to->length + length + 1 > to->room) {
        size_t room = (to->length + length + 1) * 2;
        char *at = realloc(to->at, room);
        if (!at) return -1;
        to->at = at, to->room = room;
    }
    memcpy(to->at + to->length, from, length);
    to->length += length;
    to->at[to->length] = 0;
    return 0;
}

static int read_all(int from, struct text *to) {
    char block[65536];
    for (;;) {
        ssize_t n = read(from, block, sizeof block);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return (int)n;
        if (add(to, block, (size_t)n)) return -1;
        if (to->length > LIMIT) return 0;
    }
}

static int write_all(int to, const char *at, size_t length) {
    while (length) {
        ssize_t n = write(to, at, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        at += n, length -= (size_t)n;
    }
    return 0;
}

static int read_conf(const char *self) {
    static struct text text;
    char path[PATH_MAX];
    const char *slash = strrchr(self, '/');
    if (!slash || snprintf(path, sizeof path, "%.*s/hook.conf", (int)(slash - self), self) >= (int)sizeof path) return -1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read_all(file, &text) < 0 || !text.at) return -1;
    close(file);
    char *next = text.at;
    for (int i = 0; i < LINES; i++) {
        char *end = next ? strchr(next, '\n') : NULL;
        if (!end) return -1;
        *end = 0, conf[i] = next, next = end + 1;
    }
    return 0;
}

static int frame(struct text *to) {
    char cwd[PATH_MAX];
    const char *names[] = {"REMIT_INTENT", "TMPDIR"};
    if (!getcwd(cwd, sizeof cwd)) strcpy(cwd, "/");
    const char *fields[] = {"RMT1", conf[0], agent, kind, cwd};
    for (size_t i = 0; i < 5; i++)
        if (add(to, fields[i], strlen(fields[i]) + 1)) return -1;
    for (size_t i = 0; i < 2; i++) {
        const char *value = getenv(names[i]);
        if (!value || !*value) continue;
        if (add(to, names[i], strlen(names[i])) || add(to, "=", 1) || add(to, value, strlen(value) + 1)) return -1;
    }
    return add(to, "", 1);
}

static int wait_for(int fd, int ms) {
    struct pollfd one = {fd, POLLIN, 0};
    int n;
    do n = poll(&one, 1, ms); while (n < 0 && errno == EINTR);
    return n == 1 ? 0 : -1;
}

/* A daemon that is stopped or stuck loses its door: the next call need not wait, and it leaves when it wakes. */
static int late(void) {
    unlink(conf[2]);
    return -1;
}

/* The exit code of a whole answer; -1 where the daemon gave none. */
static int ask_daemon(const struct text *payload) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct text head = {0}, reply = {0};
    char ack = 0;
    if (strlen(conf[2]) >= sizeof address.sun_path) return -1;
    strcpy(address.sun_path, conf[2]);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct timeval patience = {ACK_MS / 1000, 0};
    if (fd < 0 || frame(&head)) return -1;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience); /* Holds for connect, too: a full queue. */
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) return errno == EAGAIN ? late() : -1;
    if (write_all(fd, head.at, head.length) || write_all(fd, payload->at, payload->length))
        return errno == EAGAIN ? late() : -1;
    shutdown(fd, SHUT_WR);
    if (wait_for(fd, ACK_MS)) return late();
    if (read(fd, &ack, 1) != 1 || ack != 'A') return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience); /* An answer that has begun comes at once. */
    if (wait_for(fd, atoi(conf[3]) * 1000) || read_all(fd, &reply) < 0 || reply.length < 9) return -1;
    const unsigned char *h = (const unsigned char *)reply.at;
    size_t out = (size_t)h[1] << 24 | (size_t)h[2] << 16 | (size_t)h[3] << 8 | h[4];
    size_t err = (size_t)h[5] << 24 | (size_t)h[6] << 16 | (size_t)h[7] << 8 | h[8];
    if (reply.length != 9 + out + err) return -1;
    write_all(2, reply.at + 9 + out, err);
    write_all(1, reply.at + 9, out);
    return h[0];
}

static int ask_fresh(const struct text *payload) {
    int ends[2];
    if (pipe(ends)) return failed("no pipe for a fresh process");
    pid_t writer = fork();
    if (writer < 0) return failed("no process could be started");
    if (writer == 0) {
        close(ends[0]), close(1), close(2);
        _exit(write_all(ends[1], payload->at, payload->length) ? 1 : 0);
    }
    close(ends[1]);
    dup2(ends[0], 0);
    close(ends[0]);
    signal(SIGPIPE, SIG_DFL);
    execl(conf[1], conf[1], "-I", "-c", "from remit.cli import main; main()", "hook", agent, kind, "--client", (char *)NULL);
    return failed("the interpreter named in hook.conf cannot be started; run: remit doctor --fix");
}

int main(int count, char **words) {
    struct text payload = {0};
    if (count != 3) {
        fprintf(stderr, "usage: hook AGENT pre|post|note < payload\n");
        return 2;
    }
    agent = words[1], kind = words[2];
    signal(SIGPIPE, SIG_IGN);
    if (read_conf(words[0])) return failed("hook.conf beside the client cannot be read; run: remit doctor --fix");
    if (read_all(0, &payload) < 0 || add(&payload, "", 0)) return failed("the payload cannot be read");
    int code = ask_daemon(&payload);
    return code >= 0 ? code : ask_fresh(&payload);
}
