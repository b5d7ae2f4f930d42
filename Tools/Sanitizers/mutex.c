// Tells the thread sanitizer what the slow paths of Swift's Mutex order.
//
// `Synchronization.Mutex` on Linux takes a free lock in code that is inlined, which the sanitizer sees; a lock that is
// held is taken and handed over in libswiftSynchronization.so, which is not built for it: there every hand-over looks
// like a race. Preloaded, these stand before the library's own; the mutex arrives in the context register.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"
#define SWIFT __attribute__((swiftcall))
#define CONTEXT __attribute__((swift_context))

extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));

typedef SWIFT void (*lock_function)(uint32_t thread, CONTEXT void *mutex);
typedef SWIFT void (*unlock_function)(CONTEXT void *mutex);

static void *next(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

SWIFT void waybill_lock(uint32_t thread, CONTEXT void *mutex) __asm__(LOCK);
SWIFT void waybill_lock(uint32_t thread, CONTEXT void *mutex) {
    ((lock_function)next(LOCK))(thread, mutex);
    if (__tsan_acquire) __tsan_acquire(mutex);
}

SWIFT void waybill_unlock(CONTEXT void *mutex) __asm__(UNLOCK);
SWIFT void waybill_unlock(CONTEXT void *mutex) {
    if (__tsan_release) __tsan_release(mutex);
    ((unlock_function)next(UNLOCK))(mutex);
}
