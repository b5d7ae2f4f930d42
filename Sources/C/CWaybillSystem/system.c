#define _GNU_SOURCE
#include "CWaybillSystem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__GLIBC__)
#include <malloc.h>

// `malloc_trim` gives back what is free between chunks that are used, and behind the last one in the main arena alone.
// In another thread's arena that is done by `free` of a large chunk, when more is free there than a threshold, which
// grows with the largest chunk that was ever freed, up to 64 MiB.
void waybill_trim_memory(void) {
    mallopt(M_TRIM_THRESHOLD, 128 << 10);
    void *volatile chunk = malloc(96 << 10);
    free(chunk);
    malloc_trim(0);
    // From now on it does not grow; what batches need again and again stays.
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
}
#else
void waybill_trim_memory(void) {}
#endif

static _Thread_local char thread_name[16];
static _Thread_local int thread_mark;

static void remember_name(const char *name) { snprintf(thread_name, sizeof thread_name, "%s", name); }

int waybill_is_thread_named(const char *name) { return strncmp(thread_name, name, sizeof thread_name - 1) == 0; }

int waybill_mark_thread(int mark) {
    int before = thread_mark;
    thread_mark = mark;
    return before;
}

#if defined(O_PATH)
static const int way_flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
#else
static const int way_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
#endif

// Opens one component. A link gives ELOOP, also where a directory was asked for, which the system answers with ENOTDIR.
static int open_entry(int folder, const char *name, int flags) {
    int descriptor = openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor >= 0 || errno != ENOTDIR) return descriptor;
    struct stat status;
    int is_link = fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(status.st_mode);
    errno = is_link ? ELOOP : ENOTDIR;
    return -1;
}

// Component by component. openat2(2) does it in one call, but not every kernel and sandbox allows it.
int waybill_open_below(int folder, const char *path, int flags) {
    char name[256];
    int at = folder;
    while (1) {
        const char *slash = strchr(path, '/');
        size_t length = slash ? (size_t)(slash - path) : strlen(path);
        int next = -1;
        if (length >= sizeof name) {
            errno = ENAMETOOLONG;
        } else {
            memcpy(name, path, length);
            name[length] = 0;
            if (length == 0 || strcmp(name, "..") == 0) {
                errno = EINVAL;
            } else {
                next = open_entry(at, name, slash ? way_flags : flags);
            }
        }
        int error = errno;
        if (at != folder) close(at);
        errno = error;
        if (next < 0 || !slash) return next;
        at = next;
        path = slash + 1;
    }
}

int waybill_open_way(int folder, const char *path) { return waybill_open_below(folder, path, way_flags); }

int waybill_open_folder(int folder, const char *path) { return open_entry(folder, path, O_RDONLY | O_DIRECTORY); }

#if defined(__linux__)
#include <sys/random.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

/// Before Linux 5.8, syncfs(2) said nothing of bytes that could not be written.
static int reports_lost_bytes(void) {
    struct utsname names;
    int major = 0, minor = 0;
    if (uname(&names) != 0 || sscanf(names.release, "%d.%d", &major, &minor) != 2) return 0;
    return major > 5 || (major == 5 && minor >= 8);
}

int waybill_sync_all(int folder) {
    struct statfs status;
    if (fstatfs(folder, &status) != 0) return -1;
    // Others may pass the call to a server, or to a file system below, that does not store everything.
    switch ((unsigned long)status.f_type) {
    case 0xEF53:     // ext4
    case 0x58465342: // XFS
    case 0x9123683E: // Btrfs
    case 0xF2F52010: // F2FS
        break;
    default: return 0;
    }
    if (!reports_lost_bytes()) return 0;
    return syncfs(folder) == 0 ? 1 : -1;
}

int waybill_is_written(int descriptor) {
    // A read lease is refused while the file is open for writing. Who would break it meanwhile sends a signal that is
    // ignored.
    if (fcntl(descriptor, F_SETSIG, SIGURG) != 0) return 0;
    if (fcntl(descriptor, F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN;
    fcntl(descriptor, F_SETLEASE, F_UNLCK);
    return 0;
}

uint32_t waybill_file_system_type(const char *path) {
    struct statfs status;
    return statfs(path, &status) == 0 ? (uint32_t)status.f_type : 0;
}

int64_t waybill_birth_time(int descriptor) {
    struct statx status;
    if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BTIME, &status) != 0) return 0;
    if ((status.stx_mask & STATX_BTIME) == 0) return 0;
    return (int64_t)status.stx_btime.tv_sec * 1000000000 + status.stx_btime.tv_nsec;
}

int waybill_exchange(int folder, const char *first, int other_folder, const char *second) {
    return renameat2(folder, first, other_folder, second, RENAME_EXCHANGE);
}

int waybill_random(void *buffer, unsigned long byte_count) {
    unsigned char *bytes = buffer;
    while (byte_count > 0) {
        ssize_t count = getrandom(bytes, byte_count, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return -1;
        bytes += count;
        byte_count -= (unsigned long)count;
    }
    return 0;
}

void waybill_name_thread(const char *name) {
    remember_name(name);
    pthread_setname_np(pthread_self(), name);
}
#else
int waybill_sync_all(int folder) {
    (void)folder;
    return 0;
}

int waybill_is_written(int descriptor) {
    (void)descriptor;
    return 0;
}

uint32_t waybill_file_system_type(const char *path) {
    (void)path;
    return 0;
}

int64_t waybill_birth_time(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return 0;
    return (int64_t)status.st_birthtimespec.tv_sec * 1000000000 + status.st_birthtimespec.tv_nsec;
}

int waybill_exchange(int folder, const char *first, int other_folder, const char *second) {
    return renameatx_np(folder, first, other_folder, second, RENAME_SWAP);
}

int waybill_random(void *buffer, unsigned long byte_count) {
    arc4random_buf(buffer, byte_count);
    return 0;
}

void waybill_name_thread(const char *name) {
    remember_name(name);
    pthread_setname_np(name);
}
#endif

int64_t waybill_seek_data(int descriptor, int64_t offset) {
#if defined(SEEK_DATA)
    return lseek(descriptor, offset, SEEK_DATA);
#else
    (void)descriptor;
    (void)offset;
    errno = ENOTSUP;
    return -1;
#endif
}
