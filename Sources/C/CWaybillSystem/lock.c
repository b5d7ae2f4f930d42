#include "CWaybillSystem.h"

#include <stdlib.h>

// On Linux a plain mutex, because a lock that is handed to the longest-waiting thread costs a thread switch for each turn
// under contention. os_unfair_lock is not fair either, and knows the holder, whose priority it raises.
#if defined(__APPLE__)
#include <os/lock.h>

struct waybill_lock {
    os_unfair_lock lock;
};

static void initialize(waybill_lock *lock) { lock->lock = OS_UNFAIR_LOCK_INIT; }
static void destroy(waybill_lock *lock) { (void)lock; }

void waybill_lock_take(waybill_lock *lock) { os_unfair_lock_lock(&lock->lock); }
int waybill_lock_try(waybill_lock *lock) { return os_unfair_lock_trylock(&lock->lock); }
void waybill_lock_release(waybill_lock *lock) { os_unfair_lock_unlock(&lock->lock); }
#else
#include <pthread.h>

struct waybill_lock {
    pthread_mutex_t mutex;
};

static void initialize(waybill_lock *lock) { pthread_mutex_init(&lock->mutex, NULL); }
static void destroy(waybill_lock *lock) { pthread_mutex_destroy(&lock->mutex); }

void waybill_lock_take(waybill_lock *lock) { pthread_mutex_lock(&lock->mutex); }
int waybill_lock_try(waybill_lock *lock) { return pthread_mutex_trylock(&lock->mutex) == 0; }
void waybill_lock_release(waybill_lock *lock) { pthread_mutex_unlock(&lock->mutex); }
#endif

waybill_lock *waybill_lock_new(void) {
    waybill_lock *lock = malloc(sizeof *lock);
    if (!lock) abort();
    initialize(lock);
    return lock;
}

void waybill_lock_free(waybill_lock *lock) {
    destroy(lock);
    free(lock);
}
