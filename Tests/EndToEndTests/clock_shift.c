// Shifts the wall clock of a program by CLOCK_SHIFT_SECONDS, or by the number in the file CLOCK_SHIFT_FILE, which may
// change while the program runs; as LD_PRELOAD. Clocks that measure passed time are right.
// libfaketime (0.9.10) cannot be used: it moves the environment, before which Swift's runtime looks for the arguments.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *moving;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("CLOCK_SHIFT_FILE");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof *moving, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) moving = mapped;
    close(file);
}

static long shift(void) {
    if (moving) return *moving;
    const char *text = getenv("CLOCK_SHIFT_SECONDS");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift();
    return (int)result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
