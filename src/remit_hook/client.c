/* The hook client: hands an agent's payload to the daemon, or to a fresh process, and copies the answer out.
 *
 * Usage: hook AGENT pre|post|note < payload, or hook exec --session ID --call ID -- SHELL -c TEXT: see `contained`,
 * or hook mcp, which an agent starts as its MCP server: see `relay`.
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
    static struct text text; /* It is read again where the client lives long. */
    text.length = 0;
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

static int add_variable(struct text *to, const char *name) {
    const char *value = getenv(name);
    if (!value || !*value) return 0;
    return add(to, name, strlen(name)) || add(to, "=", 1) || add(to, value, strlen(value) + 1) ? -1 : 0;
}

static int frame(struct text *to) {
    char cwd[PATH_MAX];
    /* Where programs keep secrets that a contained command does not see: `secret_places.py`. */
    const char *names[] = {
        "REMIT_INTENT", "TMPDIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "GNUPGHOME",
        "PASSWORD_STORE_DIR", "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "DOCKER_CONFIG", "GH_CONFIG_DIR",
        "GLAB_CONFIG_DIR", "CARGO_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CONFIG_DIR",
        "GEMINI_CLI_HOME", "QWEN_HOME",
        "COMPOSER_HOME", "ZDOTDIR", "AWS_SHARED_CREDENTIALS_FILE", "KUBECONFIG",
        "GOOGLE_APPLICATION_CREDENTIALS", "RCLONE_CONFIG", "NETRC", "REGISTRY_AUTH_FILE", "HISTFILE"};
    /* What the commands need that Remit's tools run for the agent: `PASSED_VARIABLES` in environment.py. */
    const char *passed[] = {"PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV"};
    if (!getcwd(cwd, sizeof cwd)) strcpy(cwd, "/");
    const char *fields[] = {"RMT1", conf[0], agent, kind, cwd};
    for (size_t i = 0; i < 5; i++)
        if (add(to, fields[i], strlen(fields[i]) + 1)) return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (add_variable(to, names[i])) return -1;
    for (size_t i = 0; !strcmp(agent, "mcp") && i < sizeof passed / sizeof *passed; i++)
        if (add_variable(to, passed[i])) return -1;
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

/* -- mcp: Remit's tools, between an agent and the process that the daemon keeps warm --
 *
 * Lines are passed on both ways.  Until that process serves, `initialize`, `ping` and `tools/list` are answered from the
 * workspace's offer, a file beside the daemon's socket: see `tool_offer.py`.  What was answered so is said to the process
 * afterwards, as it is after a daemon that left; a call that was under way then is answered with an error, once.
 */

enum { GRACE_MS = 20, PAUSE_MS = 20, LONGEST_PAUSE_MS = 500, GIVE_UP_MS = 30000, START_MS = 5000 };
enum { OFFER_LINES = 5, BLOCK = 65536, ATOMIC = 4096, FULL = 1 << 20, READY = 3 };

#define GREETING "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"

struct span { const char *at; size_t length; };
struct call { char *id; int is_list, is_awaited; };

static struct {
    struct text in, out, sent, heard, waiting; /* from and to the client, to and from the server; lines that wait */
    struct call *calls; /* Requests that the server has to answer. */
    size_t count, room, written, told; /* How much of `out` and `sent` is gone. */
    char *hello, *id, *offer[OFFER_LINES];
    int server, serves, served, begun, greeted, listed, replayed, closing, shut, skipping, ready, looked;
    double asked, knocked, next, started, pause;
} mcp = {.server = -1, .ready = -1, .pause = PAUSE_MS};

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static const char *past_space(const char *at, const char *end) {
    while (at < end && is_space(*at)) at++;
    return at;
}

/* Past a string; NULL where it does not end. */
static const char *past_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : NULL;
}

static const char *past_value(const char *at, const char *end) {
    for (int depth = 0; at && at < end;) {
        if (*at == '"') {
            at = past_string(at, end);
            if (!depth) return at;
            continue;
        }
        if (*at == '{' || *at == '[') depth++;
        else if (!depth && (*at == ',' || *at == '}' || *at == ']' || is_space(*at))) return at;
        else if ((*at == '}' || *at == ']') && !--depth) return at + 1;
        at++;
    }
    return NULL;
}

/* The value of a member of a JSON object, as it stands there; nothing where there is none, or no object. */
static struct span member(struct span of, const char *name) {
    struct span found = {NULL, 0};
    const char *end = of.at + of.length, *at = past_space(of.at, end);
    if (at >= end || *at != '{') return found;
    do {
        const char *key = at = past_space(at + 1, end);
        if (at >= end || *at != '"' || !(at = past_string(at, end))) break;
        size_t length = (size_t)(at - key);
        at = past_space(at, end);
        if (at >= end || *at != ':') break;
        const char *value = at = past_space(at + 1, end);
        if (!(at = past_value(at, end)) || at == value) break;
        if (length == strlen(name) + 2 && !memcmp(key + 1, name, length - 2)) found = (struct span){value, (size_t)(at - value)};
        at = past_space(at, end);
    } while (at < end && *at == ',');
    return at && at < end && *at == '}' && past_space(at + 1, end) == end ? found : (struct span){NULL, 0};
}

/* The id of a message; nothing where it has none, and wants no answer. */
static struct span id_of(struct span line) {
    struct span found = member(line, "id");
    return found.length == 4 && !memcmp(found.at, "null", 4) ? (struct span){NULL, 0} : found;
}

static int says(struct span value, const char *word) {
    return value.at && value.length == strlen(word) + 2 && !memcmp(value.at + 1, word, value.length - 2);
}

static int is_same(struct span value, const char *text) {
    return text && value.at && strlen(text) == value.length && !memcmp(value.at, text, value.length);
}

/* Out of memory, nothing can be passed on: the client sees its server end. */
static void put(struct text *to, const char *at, size_t length) {
    if (add(to, at, length)) exit(failed("out of memory"));
}

static void put_words(struct text *to, const char *words) { put(to, words, strlen(words)); }

static void put_line(struct text *to, struct span line) { put(to, line.at, line.length), put(to, "\n", 1); }

static void drop(struct text *from, size_t length) {
    from->length -= length;
    if (from->at) memmove(from->at, from->at + length, from->length + 1);
}

static char *copy(struct span of) {
    char *found = strndup(of.at, of.length);
    if (!found) exit(failed("out of memory"));
    return found;
}

static void put_result(struct span id, const char *first, const char *rest) {
    put_words(&mcp.out, "{\"jsonrpc\":\"2.0\",\"id\":"), put(&mcp.out, id.at, id.length);
    put_words(&mcp.out, ",\"result\":"), put_words(&mcp.out, first), put_words(&mcp.out, rest), put_words(&mcp.out, "}\n");
}

static void put_error(struct span id, const char *words) {
    put_words(&mcp.out, "{\"jsonrpc\":\"2.0\",\"id\":"), put(&mcp.out, id.at, id.length);
    put_words(&mcp.out, ",\"error\":{\"code\":-32000,\"message\":\""), put_words(&mcp.out, words);
    put_words(&mcp.out, "\"}}\n");
}

static double now_ms(void) { return now_s() * 1000; }

/* -- the offer that was prepared -- */

/* A file beside the daemon's socket. */
static int name_beside(char *path, const char *name) {
    const char *slash = strrchr(conf[2], '/');
    int folder = slash ? (int)(slash - conf[2]) : 0;
    return snprintf(path, PATH_MAX, "%.*s/%s", folder, conf[2], name) >= PATH_MAX ? -1 : 0;
}

/* FNV-1a of a folder's path: the name of its offer. */
static unsigned long long hash_path(const char *path) {
    unsigned long long found = 14695981039346656037ULL;
    for (; *path; path++) found = (found ^ (unsigned char)*path) * 1099511628211ULL;
    return found;
}

static int read_offer(const char *root) {
    static struct text text;
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "offers/%016llx", hash_path(root));
    int file = name_beside(path, name) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    text.length = 0;
    int got = read_all(file, &text);
    close(file);
    char *next = got < 0 ? NULL : text.at;
    for (int i = 0; i < OFFER_LINES; i++) {
        char *end = next ? strchr(next, '\n') : NULL;
        if (!end) return 0;
        *end = 0, mcp.offer[i] = next, next = end + 1;
    }
    return !strcmp(mcp.offer[0], conf[0]) && !strcmp(mcp.offer[1], root);
}

/* Whether there is an offer for the workspace of this folder: the nearest one, and none beyond a repository. */
static int has_offer(void) {
    char at[PATH_MAX], git[PATH_MAX + 8];
    if (mcp.looked) return mcp.looked > 0;
    mcp.looked = -1;
    if (!getcwd(at, sizeof at)) return 0;
    for (char *slash; *at; *slash = 0) {
        if (read_offer(at)) return mcp.looked = 1;
        snprintf(git, sizeof git, "%s/.git", at);
        if (!access(git, F_OK) || !(slash = strrchr(at, '/'))) return 0;
    }
    return 0;
}

/* The version of the protocol to speak: the client's where it is known, else the newest, which comes first. */
static void choose_version(struct span wanted, char *version, size_t room) {
    char word[32];
    if (wanted.at && wanted.length > 2 && wanted.length < sizeof word) {
        snprintf(word, sizeof word, " %.*s ", (int)wanted.length - 2, wanted.at + 1);
        if (strstr(mcp.offer[2], word)) {
            snprintf(version, room, "%.*s", (int)wanted.length - 2, wanted.at + 1);
            return;
        }
    }
    sscanf(mcp.offer[2], "%15s", version);
}

/* Answer a line from the offer; 0 where it has to wait for the server. */
static int answer_early(struct span line) {
    struct span method = member(line, "method"), id = id_of(line);
    char version[16] = "", first[64];
    if (says(method, "notifications/initialized")) return mcp.begun;
    if (!method.at && id.at) return 1; /* It answers a server that is gone. */
    if (!method.at || !id.at) return 0;
    if (says(method, "ping")) return put_result(id, "{}", ""), 1;
    if (says(method, "initialize") && has_offer()) {
        choose_version(member(member(line, "params"), "protocolVersion"), version, sizeof version);
        snprintf(first, sizeof first, "{\"protocolVersion\":\"%s\",", version);
        return mcp.begun = 1, put_result(id, first, mcp.offer[3]), 1;
    }
    if (says(method, "tools/list") && mcp.begun && has_offer()) return mcp.listed = 1, put_result(id, mcp.offer[4], ""), 1;
    return 0;
}

/* -- the client's lines -- */

static void keep_hello(struct span line, struct span id) {
    free(mcp.hello), free(mcp.id);
    mcp.hello = copy(line), mcp.id = copy(id), mcp.begun = mcp.greeted = mcp.listed = mcp.replayed = 0;
}

/* Send a line to the server, and remember what it has to answer. */
static void pass_on(struct span line) {
    struct span method = member(line, "method"), id = id_of(line);
    if (method.at && id.at) {
        if (mcp.count == mcp.room) {
            struct call *more = realloc(mcp.calls, (mcp.room = 2 * mcp.room + 8) * sizeof *more);
            if (!more) exit(failed("out of memory"));
            mcp.calls = more;
        }
        int is_list = says(method, "tools/list"), is_awaited = !says(method, "subscriptions/listen");
        mcp.calls[mcp.count++] = (struct call){copy(id), is_list, is_awaited};
    }
    put_line(&mcp.sent, line);
}

/* Take up a line of the client. */
static void take(struct span line) {
    struct span method = member(line, "method"), id = id_of(line);
    if (past_space(line.at, line.at + line.length) == line.at + line.length) return;
    if (says(method, "initialize") && id.at) keep_hello(line, id);
    if (says(method, "notifications/initialized")) mcp.greeted = 1;
    if (mcp.serves) pass_on(line);
    else put_line(&mcp.waiting, line);
}

/* Cut the text into its lines, and give each to the function. */
static void each_line(struct text *from, void (*act)(struct span)) {
    size_t at = 0;
    for (char *end; from->at && (end = memchr(from->at + at, '\n', from->length - at)); at = (size_t)(end - from->at) + 1)
        act((struct span){from->at + at, (size_t)(end - from->at) - at});
    drop(from, at);
}

static void read_client(void) {
    char block[BLOCK];
    ssize_t n = read(0, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        mcp.closing = 1;
        if (mcp.in.length) put(&mcp.in, "\n", 1); /* A last line without an end. */
    } else put(&mcp.in, block, (size_t)n);
    if (mcp.skipping && mcp.in.length) {
        char *end = memchr(mcp.in.at, '\n', mcp.in.length);
        drop(&mcp.in, end ? (size_t)(end - mcp.in.at) + 1 : mcp.in.length);
        mcp.skipping = !end;
    }
    each_line(&mcp.in, take);
    if (mcp.in.length < LIMIT) return;
    put_words(&mcp.out, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32600,\"message\":\"Remit: the line is too long\"}}\n");
    drop(&mcp.in, mcp.in.length), mcp.skipping = 1;
}

/* -- the server's lines -- */

static void answer_client(struct span line) {
    struct span method = member(line, "method"), id = id_of(line);
    if (!method.at && is_same(id, mcp.id)) {
        int was_replayed = mcp.replayed;
        mcp.begun = 1, mcp.replayed = 0;
        if (was_replayed) return; /* The client has this answer. */
    }
    for (size_t i = 0; !method.at && i < mcp.count; i++) {
        if (!is_same(id, mcp.calls[i].id)) continue;
        mcp.listed |= mcp.calls[i].is_list;
        free(mcp.calls[i].id), mcp.calls[i] = mcp.calls[--mcp.count];
        break;
    }
    put_line(&mcp.out, line);
}

/* The server takes lines from now on: say what the client said to the one before, and what waits. */
static void begin(void) {
    mcp.serves = mcp.served = 1, mcp.pause = PAUSE_MS, mcp.asked = 0, mcp.looked = 0;
    if (mcp.begun && mcp.hello) {
        put_words(&mcp.sent, mcp.hello), put_words(&mcp.sent, "\n"), mcp.replayed = 1;
        if (mcp.greeted) put_words(&mcp.sent, GREETING);
        if (mcp.listed) put_words(&mcp.out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n");
    }
    each_line(&mcp.waiting, pass_on);
}

/* The server is gone. What it was asked is answered, but for the first words, which the next one hears again. */
static void lose_server(void) {
    if (mcp.server >= 0) close(mcp.server);
    if (mcp.serves)
        for (size_t i = 0; i < mcp.count; i++) {
            struct span id = {mcp.calls[i].id, strlen(mcp.calls[i].id)};
            if (!mcp.begun && is_same(id, mcp.id)) {
                put_words(&mcp.waiting, mcp.hello), put_words(&mcp.waiting, "\n");
                if (mcp.greeted) put_words(&mcp.waiting, GREETING);
            }
            else put_error(id, "Remit was started again during this call. It may have been carried out: look, then call again");
            free(mcp.calls[i].id);
        }
    mcp.count = mcp.told = 0, mcp.server = -1, mcp.serves = mcp.shut = mcp.replayed = 0;
    drop(&mcp.sent, mcp.sent.length), drop(&mcp.heard, mcp.heard.length);
    mcp.next = now_ms() + mcp.pause, mcp.pause = mcp.pause * 2 < LONGEST_PAUSE_MS ? mcp.pause * 2 : LONGEST_PAUSE_MS;
}

static void read_server(void) {
    char block[BLOCK];
    ssize_t n = read(mcp.server, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) return lose_server();
    size_t first = !mcp.serves;
    if (first && *block != 'A') return lose_server();
    if (first) begin();
    put(&mcp.heard, block + first, (size_t)n - first);
    each_line(&mcp.heard, answer_client);
}

/* -- finding a server -- */

/* Start a daemon that is nobody's child, unless one was started a moment ago. `ready`: it listens, or has ended. */
static void start_daemon(void) {
    char log[PATH_MAX], folder[PATH_MAX];
    int ends[2];
    if (!getcwd(folder, sizeof folder)) strcpy(folder, "/");
    if (mcp.ready >= 0 || (mcp.started && now_ms() < mcp.started + START_MS) || pipe(ends)) return;
    mcp.started = now_ms();
    pid_t between = fork();
    if (between == 0) {
        if (fork()) _exit(0);
        setsid();
        int quiet = open("/dev/null", O_RDWR);
        int said = name_beside(log, "daemon.log") ? -1 : open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (ends[1] != READY) dup2(ends[1], READY), close(ends[1]);
        dup2(quiet, 0), dup2(quiet, 1), dup2(said < 0 ? quiet : said, 2);
        for (int i = READY + 1; i < 256; i++) close(i);
        if (chdir("/")) _exit(1);
        execl(conf[1], conf[1], "-I", "-c", "from remit.cli import main; main()", "daemon", "--ready-fd", "3",
              "--first-folder", folder, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    if (between > 0) mcp.ready = ends[0], waitpid(between, NULL, 0);
    else close(ends[0]);
}

/* Serve in a process of this one, where no daemon comes. */
static void start_own_server(void) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return;
    pid_t own = fork();
    if (own == 0) {
        dup2(ends[1], 0), dup2(ends[1], 1), close(ends[0]), close(ends[1]);
        signal(SIGPIPE, SIG_DFL);
        execl(conf[1], conf[1], "-I", "-c", "from remit.cli import main; main()", "mcp", "--direct", (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    if (own < 0) return (void)close(ends[0]);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    mcp.server = ends[0];
    begin();
}

/* Knock at the daemon's door, or start one. */
static void find_server(const char *self) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct text head = {0};
    double now = now_ms();
    if (!mcp.asked) mcp.asked = now;
    if (now > mcp.asked + GIVE_UP_MS) return start_own_server();
    if (read_conf(self)) return (void)(mcp.next = now + LONGEST_PAUSE_MS); /* An upgrade may be under way. */
    int fd = set_address(&address) ? -1 : socket(AF_UNIX, SOCK_STREAM, 0);
    struct timeval patience = {ACK_MS / 1000, 0};
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC), setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (fd >= 0 && !frame(&head) && !connect(fd, (struct sockaddr *)&address, sizeof address) &&
        !write_all(fd, head.at, head.length)) {
        mcp.server = fd, mcp.knocked = now;
    } else {
        if (fd >= 0) close(fd);
        start_daemon();
        mcp.next = now + mcp.pause, mcp.pause = mcp.pause * 2 < LONGEST_PAUSE_MS ? mcp.pause * 2 : LONGEST_PAUSE_MS;
    }
    free(head.at);
}

/* -- passing on -- */

static struct text left; /* each_line takes nothing along. */

static void answer_or_keep(struct span line) {
    if (!answer_early(line)) put_line(&left, line);
}

static void answer_waiting(void) {
    left.length = 0;
    each_line(&mcp.waiting, answer_or_keep);
    put(&mcp.waiting, left.at ? left.at : "", left.length);
}

static int is_awaited(void) {
    for (size_t i = 0; i < mcp.count; i++)
        if (mcp.calls[i].is_awaited) return 1;
    return 0;
}

/* Write what does not block; -1 where nobody reads. */
static int flush(int to, struct text *from, size_t *gone, size_t most) {
    size_t length = from->length - *gone < most ? from->length - *gone : most;
    ssize_t n = send(to, from->at + *gone, length, MSG_DONTWAIT);
    if (n < 0 && errno == ENOTSOCK) n = write(to, from->at + *gone, length);
    if (n < 0) return errno == EINTR || errno == EAGAIN ? 0 : -1;
    *gone += (size_t)n;
    if (*gone == from->length || *gone > FULL) drop(from, *gone), *gone = 0;
    return 0;
}

/* Milliseconds until something is due; -1 for never. */
static int time_left(int is_wanted) {
    double now = now_ms(), due = 0;
    if (mcp.server < 0 && is_wanted) due = mcp.next;
    else if (mcp.server >= 0 && !mcp.serves) {
        due = mcp.asked + GIVE_UP_MS;
        if (mcp.waiting.length && now < mcp.knocked + GRACE_MS) due = mcp.knocked + GRACE_MS;
    }
    return !due ? -1 : due <= now ? 0 : (int)(due - now) + 1;
}

/* Pass lines on until the client is gone, or has its answers after its last line. */
static int relay(const char *self) {
    enum { CLIENT, READER, SERVER, STARTED, ENDS, BROKEN = POLLERR | POLLHUP | POLLNVAL };
    for (;;) {
        int is_wanted = mcp.waiting.length || (!mcp.served && !mcp.closing);
        if (!mcp.serves && mcp.asked && now_ms() > mcp.asked + GIVE_UP_MS) lose_server(), start_own_server();
        if (mcp.server < 0 && is_wanted && now_ms() >= mcp.next) find_server(self);
        if (!mcp.serves && (mcp.server < 0 || now_ms() >= mcp.knocked + GRACE_MS)) answer_waiting();
        size_t unread = mcp.out.length - mcp.written, unsent = mcp.sent.length - mcp.told;
        if (mcp.closing && !mcp.waiting.length && !unsent && !is_awaited()) {
            if (!mcp.serves && !unread) return 0;
            if (mcp.serves && !mcp.shut) shutdown(mcp.server, SHUT_WR), mcp.shut = 1;
        }
        int takes = !mcp.closing && mcp.waiting.length < LIMIT && unsent < FULL;
        short heard = (short)((unread < FULL ? POLLIN : 0) | (unsent ? POLLOUT : 0));
        struct pollfd ends[ENDS] = {{takes ? 0 : -1, POLLIN, 0}, {1, unread ? POLLOUT : 0, 0},
                                    {heard ? mcp.server : -1, heard, 0}, {mcp.ready, POLLIN, 0}};
        if (poll(ends, ENDS, time_left(is_wanted)) < 0) {
            if (errno == EINTR) continue;
            return 1;
        }
        if (ends[READER].revents & BROKEN) return 0;
        if (ends[READER].revents && flush(1, &mcp.out, &mcp.written, ATOMIC)) return 0;
        if (ends[SERVER].revents & POLLOUT && flush(mcp.server, &mcp.sent, &mcp.told, FULL)) lose_server();
        else if (ends[SERVER].revents & (POLLIN | BROKEN)) read_server();
        if (ends[CLIENT].revents) read_client();
        if (ends[STARTED].revents) {
            char byte;
            int listens = read(mcp.ready, &byte, 1) == 1;
            close(mcp.ready), mcp.ready = -1, mcp.next = now_ms() + (listens ? 0 : PAUSE_MS);
            if (!listens) mcp.started = 0; /* Another one was about to leave: the next may stay. */
        }
    }
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
    if (count == 2 && !strcmp(words[1], "mcp")) {
        agent = "mcp", kind = "note";
        signal(SIGPIPE, SIG_IGN);
        if (read_conf(words[0])) return failed("hook.conf beside the client cannot be read; run: remit doctor --fix"), 1;
        return relay(words[0]);
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
