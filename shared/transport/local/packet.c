#include "shared/transport/local/packet.h"

#include <errno.h>
#include <sys/socket.h>

ssize_t okv_local_packet_receive(int sock, struct iovec *vectors, size_t count, bool *is_cut)
{
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = count};
    ssize_t got = recvmsg(sock, &message, MSG_PEEK | MSG_DONTWAIT);

    if (got < 0)
        return -1;
    if (message.msg_flags & MSG_CTRUNC) {
        errno = EPROTO;
        return -1;
    }
    *is_cut = message.msg_flags & MSG_TRUNC;
    okv_local_packet_drop(sock);
    return got;
}

void okv_local_packet_drop(int sock)
{
    recv(sock, NULL, 0, MSG_DONTWAIT);
}

void okv_local_refuse_descriptors(int sock)
{
    const int off = 0;

    setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off);
}
