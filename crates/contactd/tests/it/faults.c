/* Makes writes to the audit journal fail as a control file says. Preloaded into the real binary.
 *
 * FAULTS names the file. Its text is one of: ok | full | read-only | nth N | short N | sync N | hang
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last[64];
static long writes, syncs;

static int is_journal(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0) return 0;
    path[len] = 0;
    return strstr(path, "/audit/") != NULL && strstr(path, ".jsonl") != NULL;
}

static void control(char *text, size_t size) {
    int fd = open(getenv("FAULTS"), O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, size - 1);
    if (fd >= 0) close(fd);
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

ssize_t write(int fd, const void *data, size_t len) {
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (!is_journal(fd)) return real(fd, data, len);
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
