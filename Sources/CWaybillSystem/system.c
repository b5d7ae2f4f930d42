#define _GNU_SOURCE
#include "CWaybillSystem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

#if defined(__linux__)
#include <sys/random.h>

int64_t waybill_birth_time(int descriptor) {
    struct statx status;
    if (statx(descriptor, "", AT_EMPTY_PATH, STATX_BTIME, &status) != 0) return 0;
    if ((status.stx_mask & STATX_BTIME) == 0) return 0;
    return (int64_t)status.stx_btime.tv_sec * 1000000000 + status.stx_btime.tv_nsec;
}

int waybill_exchange(const char *first, const char *second) {
    return renameat2(AT_FDCWD, first, AT_FDCWD, second, RENAME_EXCHANGE);
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
int64_t waybill_birth_time(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return 0;
    return (int64_t)status.st_birthtimespec.tv_sec * 1000000000 + status.st_birthtimespec.tv_nsec;
}

int waybill_exchange(const char *first, const char *second) {
    return renamex_np(first, second, RENAME_SWAP);
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
