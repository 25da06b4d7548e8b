/* Makes the audit journal, the databases or the clock fail as a control file says. Preloaded into the real binary.
 *
 * FAULTS names the file. Its text is one of
 * for writes to the journal: ok | full | read-only | nth N | short N | sync N | hang
 * for databases whose name contains NAME: db-read NAME | db-lock NAME | db-full NAME
 * for all databases, how many bytes each of their files may have: db-room BYTES
 * for the clock, by how many seconds it is wrong: clock N
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[64];
static long writes, syncs;

/* Whether a file's path contains both texts. */
static int path_has(int fd, const char *one, const char *other) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return 0;
    path[len] = 0;
    return strstr(path, one) != NULL && strstr(path, other) != NULL;
}

static int is_journal(int fd) { return path_has(fd, "/audit/", ".jsonl"); }

/* System calls, so that none of the functions below is called. */
static void control(char *text, size_t size) {
    int fd = syscall(SYS_openat, AT_FDCWD, getenv("FAULTS"), O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : syscall(SYS_read, fd, text, size - 1);
    if (fd >= 0) syscall(SYS_close, fd);
    text[len < 0 ? 0 : len] = 0;
    pthread_mutex_lock(&lock);
    if (strcmp(text, last) != 0) {
        snprintf(last, sizeof last, "%s", text);
        writes = syncs = 0;
    }
    pthread_mutex_unlock(&lock);
}

static long count(long *counter) {
    pthread_mutex_lock(&lock);
    long now = ++*counter;
    pthread_mutex_unlock(&lock);
    return now;
}

/* Whether this fault is on, and the file is one of the databases that it names. */
static int fails(int fd, const char *fault) {
    char text[64];
    control(text, sizeof text);
    size_t len = strlen(fault);
    return strncmp(text, fault, len) == 0 && path_has(fd, ".db", text + len);
}

/* Whether a database has no room for a write that ends there. */
static int is_full(int fd, off64_t end) {
    char text[64];
    control(text, sizeof text);
    if (strncmp(text, "db-room ", 8) == 0) return end > atol(text + 8) && path_has(fd, ".db", "");
    return fails(fd, "db-full ");
}

static int error(int code) {
    errno = code;
    return -1;
}

ssize_t read(int fd, void *data, size_t len) {
    ssize_t (*real)(int, void *, size_t) = dlsym(RTLD_NEXT, "read");
    return fails(fd, "db-read ") ? error(EIO) : real(fd, data, len);
}

ssize_t pread64(int fd, void *data, size_t len, off64_t at) {
    ssize_t (*real)(int, void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pread64");
    return fails(fd, "db-read ") ? error(EIO) : real(fd, data, len, at);
}

ssize_t pread(int fd, void *data, size_t len, off_t at) { return pread64(fd, data, len, at); }

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at) {
    ssize_t (*real)(int, const void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pwrite64");
    return is_full(fd, at + (off64_t)len) ? error(ENOSPC) : real(fd, data, len, at);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at) { return pwrite64(fd, data, len, at); }

static int locks(int fd, int command, void *argument) {
    int (*real)(int, int, ...) = dlsym(RTLD_NEXT, "fcntl64");
    int is_lock = command == F_SETLK && ((struct flock *)argument)->l_type != F_UNLCK;
    return is_lock && fails(fd, "db-lock ") ? error(EAGAIN) : real(fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return locks(fd, command, argument);
}

int fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return locks(fd, command, argument);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int told = real(clock, now);
    if (clock == CLOCK_REALTIME) {
        char text[64];
        control(text, sizeof text);
        if (strncmp(text, "clock ", 6) == 0) now->tv_sec += atol(text + 6);
    }
    return told;
}

/* PostgreSQL asks this one. */
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec told;
    int done = clock_gettime(CLOCK_REALTIME, &told);
    *now = (struct timeval){told.tv_sec, told.tv_nsec / 1000};
    return done;
}

ssize_t write(int fd, const void *data, size_t len) {
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (!is_journal(fd)) return fails(fd, "db-full ") ? error(ENOSPC) : real(fd, data, len);
    char text[64];
    control(text, sizeof text);
    while (strncmp(text, "hang", 4) == 0) {
        usleep(10000);
        control(text, sizeof text);
    }
    if (strncmp(text, "full", 4) == 0) { errno = ENOSPC; return -1; }
    if (strncmp(text, "read-only", 9) == 0) { errno = EROFS; return -1; }
    long number = count(&writes);
    if (strncmp(text, "nth ", 4) == 0 && number == atol(text + 4)) { errno = EIO; return -1; }
    if (strncmp(text, "short ", 6) == 0 && number == atol(text + 6)) return real(fd, data, len / 2);
    return real(fd, data, len);
}

static int sync_or_not(int fd, const char *name) {
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    if (!is_journal(fd)) return real(fd);
    char text[64];
    control(text, sizeof text);
    if (strncmp(text, "sync ", 5) == 0 && count(&syncs) == atol(text + 5)) { errno = EIO; return -1; }
    return real(fd);
}

int fdatasync(int fd) { return sync_or_not(fd, "fdatasync"); }
int fsync(int fd) { return sync_or_not(fd, "fsync"); }
