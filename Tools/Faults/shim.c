// Faults between a running process and its disk, for tests: deaths at a chosen call, errors, syncs that do nothing.
//
//     LD_PRELOAD=.build/faults/shim.so WAYBILL_FAULT_ROOT=/data WAYBILL_FAULT_KILL=17:half waybill receiver …
//
// Nothing of this is in the product: the library stands between the program and the C library only where it is
// preloaded, and passes everything on where no variable arms it.
//
//     WAYBILL_FAULT_ROOT=DIR[:DIR]            only calls on paths below one of these count; none: no call counts
//     WAYBILL_FAULT_COUNT=FILE                appends "n op path" for each call that counts; a second path follows a TAB
//     WAYBILL_FAULT_KILL=N:WHEN[:OPS[:FILTER]]
//         SIGKILL around the N-th call of these ops on such paths: WHEN is `before`, `after`, or `half`, which writes
//         half the bytes of a write and is `after` for every other op
//     WAYBILL_FAULT_ERROR=OPS:ERRNO:FILTER[:FROM[-TO]][;…]
//         such calls fail, from the FROM-th to the TO-th; without numbers all of them
//     WAYBILL_FAULT_SWITCH=FILE               errors happen only while FILE is there
//     WAYBILL_FAULT_NOSYNC=1                  fdatasync, fsync and syncfs return 0 at once
//
// OPS is a list with commas, `*` means all: open (that creates a file, or opens one for writing), write, sync (of a
// file), syncdir, syncall (of a file system, by a folder), truncate, rename, exchange, unlink, mkdir, rmdir. FILTER is a
// piece of the path, or a pattern when it holds a `*` (which also takes `/`). A call on two paths counts by the first,
// and as below the root by either.
//
// An error reports failure and does nothing else: what a failed sync would have dropped stays readable.
// The program calls none of these through syscall(2), which is therefore passed over.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { rootCountMax = 8, ruleCountMax = 16, pathByteCountMax = PATH_MAX + 1 };

struct Rule {
    const char *ops;
    const char *filter;
    int error;
    unsigned long from, to;
    atomic_ulong count;
};

enum Death { never, before, after, half };

static struct {
    const char *roots[rootCountMax];
    int rootCount;
    int countFile;
    atomic_ulong count;
    enum Death death;
    unsigned long deathCall;
    struct Rule deathRule;
    struct Rule rules[ruleCountMax];
    int ruleCount;
    const char *switchPath;
    int isNoSync;
} shim = {.countFile = -1};

// MARK: What the environment says

static void refuse(const char *variable, const char *value) {
    fprintf(stderr, "fault shim: %s cannot be read: %s\n", variable, value);
    _exit(99);
}

static int errorNumber(const char *name) {
    if (strcmp(name, "EIO") == 0) return EIO;
    if (strcmp(name, "ENOSPC") == 0) return ENOSPC;
    if (strcmp(name, "EROFS") == 0) return EROFS;
    if (strcmp(name, "EDQUOT") == 0) return EDQUOT;
    if (strcmp(name, "EACCES") == 0) return EACCES;
    return 0;
}

static void readKill(const char *value) {
    char *text = strdup(value);
    const char *number = strsep(&text, ":"), *when = strsep(&text, ":"), *ops = strsep(&text, ":");
    shim.deathCall = number ? strtoul(number, NULL, 10) : 0;
    if (when && strcmp(when, "before") == 0) shim.death = before;
    if (when && strcmp(when, "after") == 0) shim.death = after;
    if (when && strcmp(when, "half") == 0) shim.death = half;
    if (shim.death == never || shim.deathCall == 0) refuse("WAYBILL_FAULT_KILL", value);
    shim.deathRule.ops = ops ? ops : "*";
    shim.deathRule.filter = text ? text : "";
}

static void readErrors(const char *value) {
    char *text = strdup(value), *one;
    while ((one = strsep(&text, ";")) != NULL) {
        if (shim.ruleCount == ruleCountMax) refuse("WAYBILL_FAULT_ERROR", value);
        struct Rule *rule = &shim.rules[shim.ruleCount++];
        const char *ops = strsep(&one, ":"), *error = strsep(&one, ":"), *filter = strsep(&one, ":");
        if (!ops || !error || !filter || errorNumber(error) == 0) refuse("WAYBILL_FAULT_ERROR", value);
        rule->ops = ops;
        rule->error = errorNumber(error);
        rule->filter = filter;
        rule->from = 1;
        rule->to = ULONG_MAX;
        if (one) {
            char *end;
            rule->from = strtoul(one, &end, 10);
            if (*end == '-') rule->to = strtoul(end + 1, &end, 10);
            if (rule->from == 0 || *end != 0) refuse("WAYBILL_FAULT_ERROR", value);
        }
    }
}

__attribute__((constructor)) static void arm(void) {
    const char *value;
    if ((value = getenv("WAYBILL_FAULT_ROOT")) != NULL) {
        char *text = strdup(value), *root;
        while ((root = strsep(&text, ":")) != NULL) {
            if (shim.rootCount == rootCountMax) refuse("WAYBILL_FAULT_ROOT", value);
            if (*root) shim.roots[shim.rootCount++] = root;
        }
    }
    if ((value = getenv("WAYBILL_FAULT_COUNT")) != NULL) {
        shim.countFile = (int)syscall(SYS_openat, AT_FDCWD, value, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
        if (shim.countFile < 0) refuse("WAYBILL_FAULT_COUNT", value);
    }
    if ((value = getenv("WAYBILL_FAULT_KILL")) != NULL) readKill(value);
    if ((value = getenv("WAYBILL_FAULT_ERROR")) != NULL) readErrors(value);
    shim.switchPath = getenv("WAYBILL_FAULT_SWITCH");
    shim.isNoSync = getenv("WAYBILL_FAULT_NOSYNC") != NULL;
}

// MARK: Which calls count

/// An absolute path as the caller named it; nothing is resolved.
static const char *absolute(int directory, const char *path, char *buffer) {
    if (path[0] == '/') return path;
    char link[64];
    if (directory == AT_FDCWD) {
        strcpy(link, "/proc/self/cwd");
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    }
    ssize_t count = readlink(link, buffer, PATH_MAX);
    if (count < 0 || count + 1 + strlen(path) >= pathByteCountMax) return path;
    buffer[count] = '/';
    strcpy(buffer + count + 1, path);
    return buffer;
}

static const char *pathOf(int file, char *buffer) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t count = readlink(link, buffer, PATH_MAX);
    buffer[count < 0 ? 0 : count] = 0;
    return buffer;
}

static int isBelowRoot(const char *path) {
    for (int index = 0; index < shim.rootCount; index++) {
        size_t count = strlen(shim.roots[index]);
        if (strncmp(path, shim.roots[index], count) == 0 && (path[count] == '/' || path[count] == 0)) return 1;
    }
    return 0;
}

static int isMatched(const struct Rule *rule, const char *op, const char *path) {
    if (strcmp(rule->ops, "*") != 0) {
        size_t count = strlen(op);
        const char *found = rule->ops;
        while ((found = strstr(found, op)) != NULL) {
            if ((found == rule->ops || found[-1] == ',') && (found[count] == ',' || found[count] == 0)) break;
            found += 1;
        }
        if (found == NULL) return 0;
    }
    if (strchr(rule->filter, '*')) return fnmatch(rule->filter, path, 0) == 0;
    return strstr(path, rule->filter) != NULL;
}

static _Noreturn void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/// What is to be done with one call.
struct Verdict {
    int error;
    /// `before` has happened by the time the caller has this.
    enum Death death;
};

static struct Verdict judge(const char *op, const char *path, const char *other) {
    struct Verdict verdict = {0, never};
    if (shim.rootCount == 0 || !(isBelowRoot(path) || (other && isBelowRoot(other)))) return verdict;
    int saved = errno;
    unsigned long number = atomic_fetch_add(&shim.count, 1) + 1;
    if (shim.countFile >= 0) {
        char line[2 * PATH_MAX + 64];
        int count = snprintf(line, sizeof line, "%lu %s %s%s%s\n", number, op, path, other ? "\t" : "", other ? other : "");
        syscall(SYS_write, shim.countFile, line, (size_t)count);
    }
    if (shim.death != never && isMatched(&shim.deathRule, op, path)
        && atomic_fetch_add(&shim.deathRule.count, 1) + 1 == shim.deathCall) {
        if (shim.death == before) die();
        verdict.death = shim.death;
    }
    for (int index = 0; index < shim.ruleCount && verdict.error == 0; index++) {
        struct Rule *rule = &shim.rules[index];
        if (!isMatched(rule, op, path)) continue;
        if (shim.switchPath && syscall(SYS_faccessat, AT_FDCWD, shim.switchPath, F_OK) != 0) continue;
        unsigned long call = atomic_fetch_add(&rule->count, 1) + 1;
        if (call >= rule->from && call <= rule->to) verdict.error = rule->error;
    }
    errno = saved;
    return verdict;
}

#define REAL(name)                                            \
    static __typeof__(&name) real;                            \
    if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FINISH(verdict, call)                                 \
    do {                                                      \
        if ((verdict).error) {                                \
            errno = (verdict).error;                          \
            return -1;                                        \
        }                                                     \
        __auto_type result = (call);                          \
        if ((verdict).death != never) die();                  \
        return result;                                        \
    } while (0)

// MARK: The calls

/// Whether an open changes something or is for writing; one that finds no file is followed by one that creates it.
static int isForWriting(int directory, const char *path, int flags) {
    if (flags & O_CREAT) return 1;
    return (flags & O_ACCMODE) != O_RDONLY && syscall(SYS_faccessat, directory, path, F_OK) == 0;
}

#define OPEN(name)                                                                  \
    int name(const char *path, int flags, ...) {                                    \
        REAL(name);                                                                 \
        mode_t mode = 0;                                                            \
        if (flags & (O_CREAT | O_TMPFILE)) {                                        \
            va_list list;                                                           \
            va_start(list, flags);                                                  \
            mode = (mode_t)va_arg(list, int);                                       \
            va_end(list);                                                           \
        }                                                                           \
        if (!isForWriting(AT_FDCWD, path, flags)) return real(path, flags, mode);   \
        char buffer[pathByteCountMax];                                              \
        struct Verdict verdict = judge("open", absolute(AT_FDCWD, path, buffer), NULL); \
        FINISH(verdict, real(path, flags, mode));                                   \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                \
    int name(int directory, const char *path, int flags, ...) {                     \
        REAL(name);                                                                 \
        mode_t mode = 0;                                                            \
        if (flags & (O_CREAT | O_TMPFILE)) {                                        \
            va_list list;                                                           \
            va_start(list, flags);                                                  \
            mode = (mode_t)va_arg(list, int);                                       \
            va_end(list);                                                           \
        }                                                                           \
        if (!isForWriting(directory, path, flags)) return real(directory, path, flags, mode); \
        char buffer[pathByteCountMax];                                              \
        struct Verdict verdict = judge("open", absolute(directory, path, buffer), NULL); \
        FINISH(verdict, real(directory, path, flags, mode));                        \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void *bytes, size_t count) {
    REAL(write);
    char buffer[pathByteCountMax];
    struct Verdict verdict = judge("write", pathOf(file, buffer), NULL);
    if (verdict.death == half) count /= 2;
    FINISH(verdict, real(file, bytes, count));
}

#define PWRITE(name, Offset)                                                        \
    ssize_t name(int file, const void *bytes, size_t count, Offset offset) {        \
        REAL(name);                                                                 \
        char buffer[pathByteCountMax];                                              \
        struct Verdict verdict = judge("write", pathOf(file, buffer), NULL);        \
        if (verdict.death == half) count /= 2;                                      \
        FINISH(verdict, real(file, bytes, count, offset));                          \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

/// Writes half the bytes, which may end anywhere in the vector.
static void writeHalf(ssize_t (*real)(int, const void *, size_t), int file, const struct iovec *vector, int count) {
    size_t rest = 0;
    for (int index = 0; index < count; index++) rest += vector[index].iov_len;
    rest /= 2;
    for (int index = 0; index < count && rest > 0; index++) {
        size_t piece = vector[index].iov_len < rest ? vector[index].iov_len : rest;
        if (real(file, vector[index].iov_base, piece) < 0) return;
        rest -= piece;
    }
}

static ssize_t plainWrite(int file, const void *bytes, size_t count) { return syscall(SYS_write, file, bytes, count); }

ssize_t writev(int file, const struct iovec *vector, int count) {
    REAL(writev);
    char buffer[pathByteCountMax];
    struct Verdict verdict = judge("write", pathOf(file, buffer), NULL);
    if (verdict.death == half) {
        writeHalf(plainWrite, file, vector, count);
        die();
    }
    FINISH(verdict, real(file, vector, count));
}

#define SYNC(name)                                                                  \
    int name(int file) {                                                            \
        REAL(name);                                                                 \
        char buffer[pathByteCountMax];                                              \
        struct stat status;                                                         \
        const char *op = fstat(file, &status) == 0 && S_ISDIR(status.st_mode) ? "syncdir" : "sync"; \
        struct Verdict verdict = judge(op, pathOf(file, buffer), NULL);             \
        FINISH(verdict, shim.isNoSync ? 0 : real(file));                            \
    }
SYNC(fdatasync)
SYNC(fsync)

int syncfs(int folder) {
    REAL(syncfs);
    char buffer[pathByteCountMax];
    struct Verdict verdict = judge("syncall", pathOf(folder, buffer), NULL);
    FINISH(verdict, shim.isNoSync ? 0 : real(folder));
}

#define TRUNCATE(name, Offset)                                                      \
    int name(int file, Offset length) {                                             \
        REAL(name);                                                                 \
        char buffer[pathByteCountMax];                                              \
        struct Verdict verdict = judge("truncate", pathOf(file, buffer), NULL);     \
        FINISH(verdict, real(file, length));                                        \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

int rename(const char *path, const char *other) {
    REAL(rename);
    char buffer[pathByteCountMax], otherBuffer[pathByteCountMax];
    struct Verdict verdict =
        judge("rename", absolute(AT_FDCWD, path, buffer), absolute(AT_FDCWD, other, otherBuffer));
    FINISH(verdict, real(path, other));
}

int renameat(int directory, const char *path, int otherDirectory, const char *other) {
    REAL(renameat);
    char buffer[pathByteCountMax], otherBuffer[pathByteCountMax];
    struct Verdict verdict =
        judge("rename", absolute(directory, path, buffer), absolute(otherDirectory, other, otherBuffer));
    FINISH(verdict, real(directory, path, otherDirectory, other));
}

int renameat2(int directory, const char *path, int otherDirectory, const char *other, unsigned flags) {
    REAL(renameat2);
    char buffer[pathByteCountMax], otherBuffer[pathByteCountMax];
    struct Verdict verdict = judge(
        flags & RENAME_EXCHANGE ? "exchange" : "rename", absolute(directory, path, buffer),
        absolute(otherDirectory, other, otherBuffer));
    FINISH(verdict, real(directory, path, otherDirectory, other, flags));
}

int unlink(const char *path) {
    REAL(unlink);
    char buffer[pathByteCountMax];
    struct Verdict verdict = judge("unlink", absolute(AT_FDCWD, path, buffer), NULL);
    FINISH(verdict, real(path));
}

int unlinkat(int directory, const char *path, int flags) {
    REAL(unlinkat);
    char buffer[pathByteCountMax];
    struct Verdict verdict = judge(flags & AT_REMOVEDIR ? "rmdir" : "unlink", absolute(directory, path, buffer), NULL);
    FINISH(verdict, real(directory, path, flags));
}

int rmdir(const char *path) {
    REAL(rmdir);
    char buffer[pathByteCountMax];
    struct Verdict verdict = judge("rmdir", absolute(AT_FDCWD, path, buffer), NULL);
    FINISH(verdict, real(path));
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    char buffer[pathByteCountMax];
    struct Verdict verdict = judge("mkdir", absolute(AT_FDCWD, path, buffer), NULL);
    FINISH(verdict, real(path, mode));
}

int mkdirat(int directory, const char *path, mode_t mode) {
    REAL(mkdirat);
    char buffer[pathByteCountMax];
    struct Verdict verdict = judge("mkdir", absolute(directory, path, buffer), NULL);
    FINISH(verdict, real(directory, path, mode));
}
