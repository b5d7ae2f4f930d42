#define _GNU_SOURCE
#include "CWaybillSystem.h"

#if defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

static int address_of(const char *path, struct sockaddr_un *address) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address->sun_path) return ENAMETOOLONG;
    strcpy(address->sun_path, path);
    return 0;
}

/// Does not wait if the socket was opened not to wait.
static int send_all(int socket, const struct msghdr *message, unsigned long byte_count) {
    ssize_t count;
    do count = sendmsg(socket, message, MSG_NOSIGNAL);
    while (count < 0 && errno == EINTR);
    if (count < 0) return errno;
    return (unsigned long)count == byte_count ? 0 : EMSGSIZE;
}

int waybill_open_datagrams(int send_buffer_byte_count) {
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -1;
    // The kernel takes what it allows of it; less costs events under load, which are counted.
    setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &send_buffer_byte_count, sizeof send_buffer_byte_count);
    return descriptor;
}

int waybill_connect_stream(const char *path) {
    struct sockaddr_un address;
    if ((errno = address_of(path, &address)) != 0) return -1;
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -1;
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) == 0) return descriptor;
    int error = errno;
    close(descriptor);
    errno = error;
    return -1;
}

int waybill_send_datagram(int socket, const char *path, const void *bytes, unsigned long byte_count) {
    struct sockaddr_un address;
    int error = address_of(path, &address);
    if (error != 0) return error;
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = byte_count};
    struct msghdr message = {
        .msg_name = &address, .msg_namelen = sizeof address, .msg_iov = &part, .msg_iovlen = 1};
    return send_all(socket, &message, byte_count);
}

int waybill_send_stream(int socket, const void *bytes, unsigned long byte_count) {
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = byte_count};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return send_all(socket, &message, byte_count);
}

/// Returns a descriptor of memory that nobody can change any more; -1 with `errno` set.
static int sealed_memory(const void *bytes, unsigned long byte_count) {
    // Plain first: a journald before 253 refuses memory with a seal that it does not know.
    int memory = memfd_create("waybill-event", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0 && errno == EACCES) memory = memfd_create("waybill-event", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (memory < 0) return -1;
    const char *rest = bytes;
    while (byte_count > 0) {
        ssize_t count = write(memory, rest, byte_count);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) break;
        rest += count;
        byte_count -= (unsigned long)count;
    }
    if (byte_count == 0
        && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
        return memory;
    int error = errno;
    close(memory);
    errno = error;
    return -1;
}

int waybill_send_sealed(int socket, const char *path, const void *bytes, unsigned long byte_count) {
    struct sockaddr_un address;
    int error = address_of(path, &address);
    if (error != 0) return error;
    int memory = sealed_memory(bytes, byte_count);
    if (memory < 0) return errno;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {
        .msg_name = &address,
        .msg_namelen = sizeof address,
        .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &memory, sizeof memory);
    error = send_all(socket, &message, 0);
    close(memory);
    return error;
}

int waybill_send_notice(const char *name, const void *bytes, unsigned long byte_count, int wait_milliseconds) {
    struct sockaddr_un address;
    int error = address_of(name, &address);
    if (error != 0) return error;
    // An abstract name begins with a zero byte, and every byte of it counts.
    if (address.sun_path[0] == '@') address.sun_path[0] = 0;
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
    int flags = wait_milliseconds > 0 ? 0 : SOCK_NONBLOCK;
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | flags, 0);
    if (descriptor < 0) return errno;
    struct timeval wait = {.tv_sec = wait_milliseconds / 1000, .tv_usec = wait_milliseconds % 1000 * 1000};
    struct iovec part = {.iov_base = (void *)bytes, .iov_len = byte_count};
    struct msghdr message = {.msg_name = &address, .msg_namelen = length, .msg_iov = &part, .msg_iovlen = 1};
    if (setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) == 0)
        error = send_all(descriptor, &message, byte_count);
    else
        error = errno;
    close(descriptor);
    return error;
}
#endif
