#define _GNU_SOURCE
#include "CWaybillSystem.h"

#if defined(__linux__)
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int waybill_look_at_tcp_peer(int socket, waybill_tcp_peer *peer) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    int queued = 0;
    memset(&info, 0, sizeof info);
    if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return -1;
    // A sandbox that answers in the kernel's place may know less.
    if (length < offsetof(struct tcp_info, tcpi_last_ack_recv) + sizeof info.tcpi_last_ack_recv) {
        errno = ENOTSUP;
        return -1;
    }
    if (ioctl(socket, SIOCOUTQ, &queued) != 0) return -1;
    peer->unacknowledged_byte_count = queued;
    // Both are set to 0 by whatever the peer's kernel acknowledges.
    peer->unanswered_try_count = (int64_t)info.tcpi_retransmits + info.tcpi_probes;
    peer->silent_milliseconds = info.tcpi_last_ack_recv;
    return 0;
}
#endif
