// What the platform's C library offers and Swift's module map for it leaves out.
#ifndef CWAYBILL_SYSTEM_H
#define CWAYBILL_SYSTEM_H

#include <stdint.h>

/// Returns the time at which the file behind `descriptor` was created, in nanoseconds since 1970; 0 where the file
/// system does not record it.
int64_t waybill_birth_time(int descriptor);

/// Returns where the next bytes that were written begin, at or after `offset` (`SEEK_DATA`); -1 with `errno` set: `ENXIO`
/// when none follow, `EINVAL` or `ENOTSUP` where the system knows no holes.
int64_t waybill_seek_data(int descriptor, int64_t offset);

/// Exchanges two paths, each from its folder, atomically. Returns 0, or -1 with `errno` set.
int waybill_exchange(int folder, const char *first, int other_folder, const char *second);

/// Opens the directory that `path` leads to from `folder` for reading, not through a link in its last component. Returns
/// it, or -1 with `errno` set: `ELOOP` for a link.
int waybill_open_folder(int folder, const char *path);

/// Opens what `path` leads to from `folder`, which has no empty component and no "..", without following any link.
/// Returns it, or -1 with `errno` set: `ELOOP` for a link.
int waybill_open_below(int folder, const char *path, int flags);

/// Opens the directory that `path` leads to from `folder`, in the same way, only for the calls that take a directory.
int waybill_open_way(int folder, const char *path);

/// Returns the number of the kind of file system that `path` lies in (`statfs(2)`); 0 where it is not known.
uint32_t waybill_file_system_type(const char *path);

/// Returns whether a process has a file open for writing; `descriptor` is open for reading alone. 0 where the system, the
/// file system or the caller's rights do not tell.
int waybill_is_written(int descriptor);

/// Makes everything on the file system of an open folder durable, names included. Returns 1; 0 where the system does not
/// promise that, and nothing was done; -1 with `errno` set.
int waybill_sync_all(int folder);

/// Fills `buffer` with random bytes from the operating system. Returns 0, or -1 with `errno` set.
int waybill_random(void *buffer, unsigned long byte_count);

/// Names the calling thread; at most 15 bytes count on Linux.
void waybill_name_thread(const char *name);

/// Returns whether `waybill_name_thread` gave the calling thread this name.
int waybill_is_thread_named(const char *name);

/// Gives memory that was freed back to the system, where the C library keeps it (glibc).
void waybill_trim_memory(void);

/// Sets the calling thread's mark and returns the one before; 0 on a thread that was never marked.
int waybill_mark_thread(int mark);

/// Where a reader is, in memory that outlives the process (`ReadingPlaces.swift` says what the numbers mean).
typedef struct {
    /// The reader's name, ended by a NUL.
    char reader[48];
    int64_t phase;
    int64_t position;
    int64_t stream;
    int64_t offset;
    /// The signal of the fault that ended the process while it was here; 0: none did.
    int64_t signal;
    int64_t suspect_phase;
    int64_t suspect_position;
    int64_t suspect_stream;
    int64_t suspect_offset;
    int64_t suspect_signal;
    /// Faults at the suspect, of a line: those of its batch before it included.
    int64_t suspect_count;
    /// Starts in a row that ended at `end_position` without a fault, and the line if it was read alone; else -1.
    int64_t end_count;
    int64_t end_position;
    int64_t end_stream;
    int64_t end_offset;
} waybill_place;

/// Has the faults of the program (`SIGSEGV` and its like) marked at the place that the faulting thread uses, before they
/// end it as they did. What another process sends is not marked.
void waybill_watch_faults(void);

/// Makes a place the one at which the calling thread's faults are marked; NULL: none.
void waybill_place_use(waybill_place *place);

/// Marks a fault at a place, as the handler does.
void waybill_place_mark(waybill_place *place, int signal);

/// Maps a file of this length, which is created if it is missing. Returns NULL with `errno` set if it cannot.
void *waybill_map_shared(const char *path, unsigned long byte_count, unsigned short permissions);

/// A lock for short sections: `os_unfair_lock` on Apple's systems, a mutex of POSIX on others.
typedef struct waybill_lock waybill_lock;

/// Makes a lock that is free. Ends the program when there is no memory.
waybill_lock *waybill_lock_new(void);

/// Frees the memory of a lock that no thread holds.
void waybill_lock_free(waybill_lock *lock);

/// Waits until the calling thread holds the lock. A thread that holds it already must not call this.
void waybill_lock_take(waybill_lock *lock);

/// Returns 1 if the calling thread holds the lock now, 0 if another thread does.
int waybill_lock_try(waybill_lock *lock);

/// Releases the lock, which the calling thread holds.
void waybill_lock_release(waybill_lock *lock);

// Atomic access to 64 bits. `order` is one of the compiler's constants: 0 relaxed, 2 acquire, 3 release, 5 sequentially
// consistent.

static inline int64_t waybill_atomic_load(const int64_t *cell, int order) { return __atomic_load_n(cell, order); }

static inline void waybill_atomic_store(int64_t *cell, int64_t value, int order) {
    __atomic_store_n(cell, value, order);
}

/// Adds and returns the sum, which wraps.
static inline int64_t waybill_atomic_add(int64_t *cell, int64_t value, int order) {
    return __atomic_add_fetch(cell, value, order);
}

/// Sets bits and returns the result.
static inline int64_t waybill_atomic_or(int64_t *cell, int64_t bits, int order) {
    return __atomic_or_fetch(cell, bits, order);
}

/// Stores `desired` if the cell holds `*expected`, and returns 1; otherwise, and sometimes without a reason, returns 0
/// with what the cell holds in `*expected`. Acquires.
static inline int waybill_atomic_exchange_weak(int64_t *cell, int64_t *expected, int64_t desired) {
    return __atomic_compare_exchange_n(cell, expected, desired, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

#if defined(__linux__)
/// Opens a socket that sends datagrams within the machine and never waits. Returns it, or -1 with `errno` set.
int waybill_open_datagrams(int send_buffer_byte_count);

/// Connects to the stream socket at `path`; what is sent there never waits. Returns it, or -1 with `errno` set.
int waybill_connect_stream(const char *path);

/// Sends one datagram to the socket at `path`. Returns 0, or the error's number.
int waybill_send_datagram(int socket, const char *path, const void *bytes, unsigned long byte_count);

/// Sends bytes to a connected socket, all or none. Returns 0, or the error's number; `EMSGSIZE` when some were sent.
int waybill_send_stream(int socket, const void *bytes, unsigned long byte_count);

/// Sends an empty datagram with the descriptor of sealed memory that holds the bytes. Returns 0, or the error's number.
int waybill_send_sealed(int socket, const char *path, const void *bytes, unsigned long byte_count);

/// Sends one datagram to the socket at a path, or to an abstract name that begins with '@'. Waits at most
/// `wait_milliseconds` while the socket takes nothing. Returns 0, or the error's number.
int waybill_send_notice(const char *name, const void *bytes, unsigned long byte_count, int wait_milliseconds);

/// What the kernel knows about the other end of a TCP connection.
typedef struct {
    /// Bytes that the peer's kernel has not acknowledged, whether they were sent yet or not.
    int64_t unacknowledged_byte_count;
    /// How often they, or a question for room, were sent again since the peer's kernel answered anything.
    int64_t unanswered_try_count;
    /// How long ago the peer's kernel last acknowledged bytes or answered a question for room.
    int64_t silent_milliseconds;
} waybill_tcp_peer;

/// Fills `peer` for a connected socket. Returns 0, or -1 with `errno` set.
int waybill_look_at_tcp_peer(int socket, waybill_tcp_peer *peer);
#endif

#endif
