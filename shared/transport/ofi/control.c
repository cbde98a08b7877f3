/* The TCP connection beside the fabric: frames before the connection stands, then its end. The
 * kernel reports a peer that died and detects a host that does not answer. libfabric does neither.
 */
#include "shared/transport/ofi/control.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "shared/base/error.h"

/* A host is dead after one second without data and two unanswered probes. */
#define KEEPALIVE_IDLE_S 1
#define KEEPALIVE_PROBES 2
#define UNANSWERED_MS 3000
/* A host that was heard of within this time is alive. */
#define HEARD_MS 2000

int okv_ofi_control_prepare(int sock)
{
    const struct {
        int level, name, value;
    } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MS},
        {IPPROTO_TCP, TCP_NODELAY, 1},
    };

    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        if (setsockopt(sock, options[i].level, options[i].name, &options[i].value, sizeof(int)))
            return okv_error_from_errno(errno);
    }
    return 0;
}

int okv_ofi_control_send(int sock, const struct ofi_frame *frame)
{
    size_t length = okv_ofi_frame_length(&frame->header);
    ssize_t sent;

    do {
        sent = send(sock, frame, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)length ? 0 : OKV_EDISCONNECTED;
}

static int diagnose_header(const struct ofi_frame_header *header)
{
    if (okv_le32_get(header->magic) == OFI_MAGIC && header->version != OFI_VERSION)
        return OKV_EVERSION;
    return OKV_EPROTO;
}

int okv_ofi_control_receive(int sock, struct ofi_frame *frame, size_t *got)
{
    for (;;) {
        size_t want = sizeof frame->header;
        if (*got >= want)
            want = okv_ofi_frame_length(&frame->header);
        if (want == 0)
            return diagnose_header(&frame->header);
        if (*got == want && want > sizeof frame->header)
            return okv_ofi_frame_is_valid(frame) ? 1 : OKV_EPROTO;
        ssize_t n = recv(sock, (uint8_t *)frame + *got, want - *got, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n <= 0)
            return OKV_EDISCONNECTED;
        *got += (size_t)n;
    }
}

bool okv_ofi_control_is_alive(int sock)
{
    struct tcp_info info;
    socklen_t length = sizeof info;

    memset(&info, 0, sizeof info);
    return getsockopt(sock, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
           info.tcpi_state == TCP_ESTABLISHED && info.tcpi_last_ack_recv <= HEARD_MS;
}

int okv_ofi_control_check(int sock)
{
    uint8_t byte;
    ssize_t n = recv(sock, &byte, sizeof byte, MSG_DONTWAIT);

    if (n > 0)
        return OKV_EPROTO; /* nothing follows the handshake */
    if (n == 0)
        return OKV_EDISCONNECTED;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        return 0;
    return errno == ETIMEDOUT ? OKV_ETIMEDOUT : OKV_EDISCONNECTED;
}
