#define _GNU_SOURCE
#include "CWaybillSystem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// What a program does wrong itself. SIGKILL, SIGTERM and the like come from outside.
static const int fault_signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGABRT, SIGFPE};
enum { fault_count = sizeof fault_signals / sizeof fault_signals[0], fault_stack_byte_count = 64 << 10 };

static struct sigaction earlier[fault_count];
static _Thread_local waybill_place *volatile thread_place;
static _Thread_local int has_fault_stack;

void waybill_place_mark(waybill_place *place, int signal) {
    if (place != NULL) __atomic_store_n(&place->signal, signal, __ATOMIC_RELEASE);
}

// Async-signal-safe: two stores to memory, sigaction(2) and raise(3).
static void mark_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    // Another process may send any of these, as a watchdog sends SIGABRT: that is no fault of what is being read.
    int is_own = info == NULL || info->si_code > 0 || info->si_pid == getpid();
    if (is_own) waybill_place_mark(thread_place, signal);
    for (int index = 0; index < fault_count; index++) {
        if (fault_signals[index] == signal) sigaction(signal, &earlier[index], NULL);
    }
    // A fault of the processor's happens again when this returns; what was raised does not.
    if (info == NULL || info->si_code <= 0) raise(signal);
}

static void watch_faults(void) {
    struct sigaction action = {0};
    action.sa_sigaction = mark_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (int index = 0; index < fault_count; index++) sigaction(fault_signals[index], &action, &earlier[index]);
}

void waybill_watch_faults(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_faults);
}

// A stack that has overflowed cannot run the handler.
static void take_fault_stack(void) {
    has_fault_stack = 1;
    stack_t stack;
    if (sigaltstack(NULL, &stack) != 0 || !(stack.ss_flags & SS_DISABLE)) return;
    stack.ss_flags = 0;
    stack.ss_size = fault_stack_byte_count;
    // For the rest of the thread's life, and of the program's: readers are few, and end with it.
    stack.ss_sp = malloc(fault_stack_byte_count);
    if (stack.ss_sp != NULL) sigaltstack(&stack, NULL);
}

void waybill_place_use(waybill_place *place) {
    if (place != NULL && !has_fault_stack) take_fault_stack();
    thread_place = place;
}

void *waybill_map_shared(const char *path, unsigned long byte_count, unsigned short permissions) {
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, permissions);
    if (file >= 0) {
        // As the other files there, whatever the mask.
        fchmod(file, permissions);
    } else if (errno == EEXIST) {
        file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    }
    if (file < 0) return NULL;
    void *memory = MAP_FAILED;
    struct stat status;
    if (fstat(file, &status) == 0) {
        if (!S_ISREG(status.st_mode)) {
            errno = EINVAL;
        } else if (ftruncate(file, (off_t)byte_count) == 0) {
            int failure = 0;
#if defined(__linux__)
            // Without its blocks, a store would be a fault when the disk is full.
            failure = posix_fallocate(file, 0, (off_t)byte_count);
#endif
            errno = failure;
            if (failure == 0) memory = mmap(NULL, byte_count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        }
    }
    int failure = errno;
    close(file);
    errno = failure;
    return memory == MAP_FAILED ? NULL : memory;
}
