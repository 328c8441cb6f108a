/* The hook client: hands an agent's payload to the daemon, or to a fresh process, and copies the answer out.
 *
 * Usage: hook AGENT pre|post|note < payload, or hook exec --session ID --call ID -- SHELL -c TEXT: see `contained`.
 * Beside it lies `hook.conf`: version, interpreter, socket and the
 * seconds that an answer may take, one a line.  It parses nothing.  Where nobody answers, `pre` exits 2 (every
 * agent takes that for a denial) and all else exits 0: a note that "fails" would loop or swallow a prompt.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

enum { ACK_MS = 2000, LINES = 4, LIMIT = 64 * 1024 * 1024 + 1 };
enum { REFUSED = 3, UNAVAILABLE = 4, ELSEWHERE = 9, STATUS = 7, LOOKS = 100, WORDS = 1024 };
enum { TIMED_OUT = 124, GRACE_S = 2, FOLDERS = 16, PLAN = 3, PIDFD_OPEN = 434 };

struct text { char *at; size_t length, room; };
struct answer { struct text all; const char *out, *err; size_t outs, errs; int code; };

static char *conf[LINES]; /* version, interpreter, socket, seconds */
static const char *agent, *kind;

static int failed(const char *why) {
    fprintf(stderr, "remit: %s\n", why);
    return strcmp(kind, "pre") == 0 ? 2 : strcmp(kind, "exec") == 0 ? UNAVAILABLE : 0;
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
    /* Where programs keep secrets that a contained command does not see: `secret_places.py`. */
    const char *names[] = {
        "REMIT_INTENT", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "GNUPGHOME",
        "PASSWORD_STORE_DIR", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "DOCKER_CONFIG", "GH_CONFIG_DIR",
        "GLAB_CONFIG_DIR", "CARGO_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CONFIG_DIR",
        "COMPOSER_HOME", "ZDOTDIR", "AWS_SHARED_CREDENTIALS_FILE", "KUBECONFIG",
        "GOOGLE_APPLICATION_CREDENTIALS", "RCLONE_CONFIG", "NETRC", "REGISTRY_AUTH_FILE", "HISTFILE"};
    if (!getcwd(cwd, sizeof cwd)) strcpy(cwd, "/");
    const char *fields[] = {"RMT1", conf[0], agent, kind, cwd};
    for (size_t i = 0; i < 5; i++)
        if (add(to, fields[i], strlen(fields[i]) + 1)) return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
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

/* The address of the daemon's socket: its path, or for one that is too long, a path through its folder's descriptor. */
static int set_address(struct sockaddr_un *address) {
    if (strlen(conf[2]) < sizeof address->sun_path) return strcpy(address->sun_path, conf[2]), 0;
#ifdef O_PATH
    const char *name = strrchr(conf[2], '/');
    char *folder = name ? strndup(conf[2], name - conf[2]) : NULL;
    int at = folder ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    size_t room = sizeof address->sun_path;
    return at < 0 || snprintf(address->sun_path, room, "/proc/self/fd/%d%s", at, name) >= (int)room ? -1 : 0;
#else
    return -1;
#endif
}

/* 0 for a whole answer; -1 where the daemon gave none. */
static int ask_daemon(const struct text *payload, struct answer *found) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct text head = {0}, *reply = &found->all;
    char ack = 0;
    if (set_address(&address)) return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
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
    int got = wait_for(fd, atoi(conf[3]) * 1000) ? -1 : read_all(fd, reply);
    close(fd);
    if (got < 0 || reply->length < 9) return -1;
    const unsigned char *h = (const unsigned char *)reply->at;
    found->outs = (size_t)h[1] << 24 | (size_t)h[2] << 16 | (size_t)h[3] << 8 | h[4];
    found->errs = (size_t)h[5] << 24 | (size_t)h[6] << 16 | (size_t)h[7] << 8 | h[8];
    found->code = h[0], found->out = reply->at + 9, found->err = found->out + found->outs;
    return reply->length == 9 + found->outs + found->errs ? 0 : -1;
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

/* -- exec: an agent's shell command, in the sandbox that the daemon plans and whose writes it judges afterwards -- */

static int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM}; /* The command has a session of its own: nobody else sends it these. */

static int field(struct text *to, const char *value) { return add(to, value, strlen(value) + 1); }

/* Remit itself does all of it: there is no daemon, or nothing that it can plan. */
static int exec_fresh(int count, char **words, const char *folder, const char *code, const char *stopped) {
    char *all[WORDS + 16] = {conf[1], "-I", "-c", "from remit.cli import main; main()"};
    int n = 4;
    if (count > WORDS) return failed("too many words");
    all[n++] = words[1];
    if (folder) all[n++] = "--settle", all[n++] = (char *)folder, all[n++] = "--code", all[n++] = (char *)code;
    if (folder && *stopped) all[n++] = "--stopped", all[n++] = (char *)stopped;
    for (int i = 2; i < count; i++) all[n++] = words[i];
    execv(conf[1], all);
    return failed("the interpreter named in hook.conf cannot be started; run: remit doctor --fix");
}

/* A process that this one started, 0 for none. Whatever loses its own parent in the sandbox is the first one's, too. */
static pid_t child_of(pid_t first) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)first, (int)first);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    pid_t found = fgets(line, sizeof line, file) ? atoi(line) : 0;
    fclose(file);
    return found;
}

/* The command, which the first process of the sandbox started, or is about to. */
static pid_t command_of(pid_t first) {
    for (int look = 0; look < LOOKS && !kill(first, 0); look++) {
        pid_t found = child_of(first);
        if (found > 0) return found;
        usleep(10000);
    }
    return 0;
}

static pid_t first_of(const char *news) {
    const char *at = news ? strstr(news, "\"child-pid\":") : NULL;
    return at ? atoi(at + 12) : 0;
}

/* What one command may take, and which of it ended it: "time", "size", "depth", or nothing. 0: no limit. */
struct limits { const char *folder; double seconds, bytes, begun, measure; const char *stopped; };

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static const double file_bytes = 4294967296.0;
static double staged; /* nftw takes nothing along. */

static int add_one(const char *path, const struct stat *found, int type, struct FTW *at) {
    (void)path, (void)at;
    double full = (double)found->st_size, there = (double)found->st_blocks * 512;
    /* Holes count, but for those of a file that is too large to be brought over: see `measure_bytes` in staged.py. */
    if (type == FTW_F || type == FTW_SL) staged += full > there && full <= file_bytes ? full : there;
    return 0;
}

/* Which limit is passed. Measuring what was written takes a tenth of the time at most. */
static const char *beyond(struct limits *all) {
    double now = now_s();
    if (all->seconds > 0 && now - all->begun >= all->seconds) return "time";
    if (all->bytes <= 0 || now < all->measure) return "";
    staged = 0;
    int unseen = nftw(all->folder, add_one, FOLDERS, FTW_PHYS) && errno == ENAMETOOLONG;
    double spent = now_s() - now;
    all->measure = now_s() + (spent > 0.1 ? 10 * spent : 1);
    return unseen ? "depth" : staged > all->bytes ? "size" : "";
}

/* Look at the limits each second, and when the time is up. */
static void tick(const struct limits *all) {
    double first = all->seconds > 0 && all->seconds < 1 ? all->seconds : 1;
    struct itimerval every = {{1, 0}, {(time_t)first, (suseconds_t)((first - (double)(time_t)first) * 1e6)}};
    if (all->seconds > 0 || all->bytes > 0) setitimer(ITIMER_REAL, &every, NULL);
}

/* Wait for the end of the sandbox; signals that come meanwhile go to the command, and one where a limit is passed. */
static int wait_passing_on(pid_t sandbox, pid_t first, const sigset_t *awaited, struct limits *all) {
    pid_t command = 0;
    double end = 0;
    for (;;) {
        int number, status;
        pid_t ended = waitpid(sandbox, &status, WNOHANG);
        if (ended == sandbox) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (sigwait(awaited, &number) || number == SIGCHLD) continue;
        if (number == SIGALRM && *all->stopped) {
            if (now_s() >= end) kill(sandbox, SIGKILL); /* With it ends all that runs in it. */
            continue;
        }
        if (number == SIGALRM) {
            if (!*(all->stopped = beyond(all))) continue;
            number = SIGTERM, end = now_s() + GRACE_S;
        }
        if (!command && first) command = command_of(first);
        if (command) kill(command, number);
    }
}

/* From here on this process, and what it starts, speaks to no abstract socket of others: buses, display servers.
 * Source: include/uapi/linux/landlock.h of Linux 6.18; a kernel before 6.12 knows no scopes, and it stays open. */
static void stay_apart(void) {
#ifdef __linux__
    enum { CREATE = 444, RESTRICT = 446, ABSTRACT = 1 };
    unsigned long long attributes[3] = {0, 0, ABSTRACT};
    long rules = syscall(CREATE, attributes, sizeof attributes, 0);
    if (rules < 0) return;
    if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) syscall(RESTRICT, (int)rules, 0);
    close((int)rules);
#endif
}

/* A descriptor that can be read once a process is gone; -1 where there is none. */
static int end_of(pid_t first) {
#ifdef __linux__
    return first > 0 ? (int)syscall(PIDFD_OPEN, first, 0) : -1;
#else
    return (void)first, -1;
#endif
}

/* Run the planned words; the exit code, or -1 where the sandbox did not start. */
static int run_planned(char **plan, struct limits *all) {
    sigset_t awaited, before;
    int ends[2];
    char block[256];
    struct text news = {0};
    sigemptyset(&awaited), sigaddset(&awaited, SIGCHLD), sigaddset(&awaited, SIGALRM);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) sigaddset(&awaited, passed_on[i]);
    signal(SIGCHLD, SIG_DFL), signal(SIGALRM, SIG_DFL);
    if (pipe(ends) || sigprocmask(SIG_BLOCK, &awaited, &before)) return -1;
    pid_t sandbox = fork();
    if (sandbox < 0) return -1;
    if (sandbox == 0) {
        for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) signal(passed_on[i], SIG_IGN);
        signal(SIGPIPE, SIG_DFL), sigprocmask(SIG_SETMASK, &before, NULL);
        if (ends[1] != STATUS) dup2(ends[1], STATUS), close(ends[1]);
        if (ends[0] != STATUS) close(ends[0]);
        stay_apart();
        execv(plan[0], plan);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t n; !memchr(news.at ? news.at : "", '\n', news.length) && (n = read(ends[0], block, sizeof block)) > 0;)
        if (add(&news, block, (size_t)n)) break;
    all->begun = now_s(), all->measure = all->begun + 1;
    tick(all);
    pid_t first = first_of(news.at);
    int gone = end_of(first);
    int code = wait_passing_on(sandbox, first, &awaited, all);
    if (gone >= 0 && (*all->stopped || child_of(first))) wait_for(gone, ACK_MS); /* What is left could still write. */
    if (gone >= 0) close(gone);
    read_all(ends[0], &news);
    close(ends[0]);
    if (*all->stopped) return TIMED_OUT;
    return news.at && strstr(news.at, "exit-code") ? code : -1;
}

/* `hook exec --session ID --call ID -- SHELL -c TEXT`: the daemon says how, and judges what came of it. */
static int contained(int count, char **words) {
    struct text asked = {0}, ended = {0};
    struct answer plan = {0}, judged = {0};
    char number[16], *argv[WORDS];
    int n = 0;
    snprintf(number, sizeof number, "%d", (int)getpid());
    field(&asked, "plan"), field(&asked, words[3]), field(&asked, words[5]), field(&asked, number);
    for (int i = 7; i < count; i++) field(&asked, words[i]);
    if (ask_daemon(&asked, &plan) || plan.code == ELSEWHERE) return exec_fresh(count, words, NULL, NULL, "");
    if (plan.code) return write_all(2, plan.err, plan.errs), plan.code;
    for (const char *at = plan.out; at < plan.out + plan.outs && n < WORDS - 1; at += strlen(at) + 1) argv[n++] = (char *)at;
    argv[n] = NULL;
    if (n < PLAN) return failed("the daemon's plan cannot be read; run: remit doctor --fix");
    struct limits all = {argv[0], atof(argv[1]), atof(argv[2]), 0, 0, ""};
    int code = n > PLAN ? run_planned(argv + PLAN, &all) : -1;
    if (code < 0) fprintf(stderr, "remit: nothing ran, the sandbox could not be set up; run: remit doctor\n");
    snprintf(number, sizeof number, "%d", code < 0 ? UNAVAILABLE : code);
    field(&ended, "settle"), field(&ended, argv[0]), field(&ended, words[5]), field(&ended, number), field(&ended, all.stopped);
    for (int i = 7; i < count; i++) field(&ended, words[i]);
    if (ask_daemon(&ended, &judged)) return exec_fresh(count, words, argv[0], number, all.stopped);
    write_all(2, judged.err, judged.errs);
    return judged.code;
}

static int is_exec(int count, char **words) {
    return count > 7 && !strcmp(words[1], "exec") && !strcmp(words[2], "--session") && !strcmp(words[4], "--call") &&
           !strcmp(words[6], "--");
}

int main(int count, char **words) {
    struct text payload = {0};
    struct answer found = {0};
    if (is_exec(count, words)) {
        agent = kind = "exec";
        signal(SIGPIPE, SIG_IGN);
        if (read_conf(words[0])) return failed("hook.conf beside the client cannot be read; run: remit doctor --fix");
        return contained(count, words);
    }
    if (count != 3) {
        fprintf(stderr, "usage: hook AGENT pre|post|note < payload\n");
        return 2;
    }
    agent = words[1], kind = words[2];
    signal(SIGPIPE, SIG_IGN);
    if (read_conf(words[0])) return failed("hook.conf beside the client cannot be read; run: remit doctor --fix");
    if (read_all(0, &payload) < 0 || add(&payload, "", 0)) return failed("the payload cannot be read");
    if (ask_daemon(&payload, &found)) return ask_fresh(&payload);
    write_all(2, found.err, found.errs);
    write_all(1, found.out, found.outs);
    return found.code;
}
