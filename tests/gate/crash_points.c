/* Kills the process at its n-th call that changes a file: preloaded, and armed by the test itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long count = -1, fatal = 0;

/* Children run without it: they are other programs, and have no state of Remit's in memory. */
__attribute__((constructor)) static void leave_children_alone(void) { unsetenv("LD_PRELOAD"); }

void arm_crash(long at) { count = 0; fatal = at; }
long crash_count(void) { return count; }

static void step(void) {
    if (count >= 0 && ++count == fatal) kill(getpid(), SIGKILL);
}

#define WRAP(type, name, parameters, arguments)                                      \
    type name parameters {                                                           \
        static type(*real) parameters;                                               \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name);               \
        step();                                                                      \
        return real arguments;                                                       \
    }

WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRAP(ssize_t, pwrite64, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRAP(int, rename, (const char *old, const char *new), (old, new))
WRAP(int, renameat, (int from, const char *old, int to, const char *new), (from, old, to, new))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fdatasync, (int fd), (fd))
WRAP(int, unlink, (const char *path), (path))
WRAP(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
WRAP(int, rmdir, (const char *path), (path))
WRAP(int, link, (const char *old, const char *new), (old, new))
WRAP(int, linkat, (int from, const char *old, int to, const char *new, int flags), (from, old, to, new, flags))
WRAP(int, symlinkat, (const char *old, int to, const char *new), (old, to, new))
WRAP(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
WRAP(int, ftruncate64, (int fd, off_t size), (fd, size))
