/*
 * Advertised buffers of the local transport. The client sends a sealed copy of its memory as a
 * memfd; the server keeps the descriptor until a rendezvous read uses it.
 *
 * A hostile client can send any descriptor. The server accepts memfds only and never maps them:
 * reading one neither blocks nor faults. A pipe can block, and so can a file on a file system that
 * the client serves.
 */
#include "shared/transport/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

/* A key is an index into the server's table and, above it, how often that index was used. */
#define INDEX_BITS 16
#define INDEX_COUNT_MAX (1u << INDEX_BITS)

/* Advertised buffers that one connection may have: one for each credit. */
static unsigned advert_count(const struct okv_local_conn *conn)
{
    uint32_t credits = okv_local_endpoint(conn->base.endpoint)->limits.credits;

    return credits < INDEX_COUNT_MAX ? credits : INDEX_COUNT_MAX;
}

/* ---- the client ---- */

/* A memfd with a copy of the bytes, sealed against any change. */
static int make_copy(const void *base, size_t length, int *out)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    const uint8_t *bytes = base;
    size_t done = 0;
    int errnum;
    int fd = memfd_create("okv-advert", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return okv_local_error(errno);
    while (done < length) {
        ssize_t n = write(fd, bytes + done, length - done);
        if (n < 0 && errno != EINTR)
            goto close_copy;
        done += n > 0 ? (size_t)n : 0;
    }
    if (fcntl(fd, F_ADD_SEALS, seals))
        goto close_copy;
    *out = fd;
    return 0;
close_copy:
    errnum = errno;
    close(fd);
    return okv_local_error(errnum);
}

/* Uses the lowest free index. The server drops what it held there, so a client with one buffer at
 * a time has at most one copy alive. */
static int acquire_key(struct okv_local_conn *conn, uint32_t *out)
{
    unsigned count = advert_count(conn);

    if (!conn->keys)
        conn->keys = calloc(count, sizeof *conn->keys);
    if (!conn->keys)
        return OKV_ENOMEM;
    for (unsigned i = 0; i < count; i++) {
        struct okv_local_key *key = &conn->keys[i];
        if (!key->in_use) {
            key->in_use = true;
            key->uses++;
            *out = (uint32_t)key->uses << INDEX_BITS | i;
            return 0;
        }
    }
    return OKV_EAGAIN;
}

static void release_key(struct okv_local_conn *conn, uint32_t key)
{
    conn->keys[key % INDEX_COUNT_MAX].in_use = false;
}

int okv_local_advert_send(struct okv_local_advert *advert)
{
    uint8_t packet[OKV_LOCAL_ADVERT_SIZE];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec vector = {packet, sizeof packet};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    ssize_t sent;

    okv_put_u32(packet, OKV_LOCAL_ADVERT_MARK);
    okv_put_u32(packet + 4, advert->base.key);
    okv_put_u64(packet + 8, advert->size);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof advert->fd);
    memcpy(CMSG_DATA(&control.header), &advert->fd, sizeof advert->fd);
    do {
        sent = sendmsg(advert->conn->sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return okv_local_error(errno);
    close(advert->fd);
    advert->fd = -1;
    return 0;
}

static void queue_unsent(struct okv_local_advert *advert)
{
    struct okv_local_conn *conn = advert->conn;
    struct okv_local_advert **link = &conn->unsent;

    while (*link)
        link = &(*link)->next;
    *link = advert;
}

static void unqueue_unsent(struct okv_local_advert *advert)
{
    struct okv_local_advert **link = &advert->conn->unsent;

    while (*link && *link != advert)
        link = &(*link)->next;
    if (*link)
        *link = advert->next;
}

int okv_local_advertise(struct okv_conn *base, const void *bytes, size_t length,
                        struct okv_advert **out)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct okv_local_advert *advert;
    int status;

    if (!okv_local_endpoint(base->endpoint)->client || length == 0)
        return OKV_EINVAL;
    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return OKV_EDISCONNECTED;
    advert = calloc(1, sizeof *advert);
    if (!advert)
        return OKV_ENOMEM;
    advert->conn = conn;
    advert->size = length;
    advert->goes_before = conn->sent + conn->send_queued;
    status = acquire_key(conn, &advert->base.key);
    if (status)
        goto free_advert;
    status = make_copy(bytes, length, &advert->fd);
    if (status)
        goto release_key;
    status = OKV_EAGAIN;
    if (!conn->unsent)
        status = okv_local_advert_send(advert);
    if (status == OKV_EAGAIN)
        queue_unsent(advert); /* the flush holds back the message that names it */
    else if (status)
        goto close_copy;
    *out = &advert->base;
    return 0;
close_copy:
    close(advert->fd);
release_key:
    release_key(conn, advert->base.key);
free_advert:
    free(advert);
    return status;
}

void okv_local_withdraw(struct okv_advert *base)
{
    struct okv_local_advert *advert = (struct okv_local_advert *)base;

    if (!advert)
        return;
    unqueue_unsent(advert);
    if (advert->fd >= 0)
        close(advert->fd);
    release_key(advert->conn, base->key);
    free(advert);
}

/* ---- the server ---- */

static bool is_sealed_memory(int fd, uint64_t size)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS); /* fails unless it is a memfd */

    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &file) == 0 &&
           S_ISREG(file.st_mode) && file.st_size >= 0 && (uint64_t)file.st_size >= size;
}

void okv_local_advertised_close(struct okv_local_advertised *advertised)
{
    if (advertised->fd >= 0)
        close(advertised->fd);
    *advertised = (struct okv_local_advertised){.fd = -1};
}

static int make_table(struct okv_local_conn *conn)
{
    unsigned count = advert_count(conn);

    conn->advertised = calloc(count, sizeof *conn->advertised);
    if (!conn->advertised)
        return OKV_ENOMEM;
    for (unsigned i = 0; i < count; i++)
        conn->advertised[i].fd = -1;
    return 0;
}

int okv_local_advert_received(struct okv_local_conn *conn, const uint8_t *bytes, int fd)
{
    uint32_t key = okv_get_u32(bytes);
    uint64_t size = okv_get_u64(bytes + 4);
    unsigned index = key % INDEX_COUNT_MAX;
    int status = index < advert_count(conn) ? 0 : OKV_EPROTO;

    if (status == 0 && !conn->advertised)
        status = make_table(conn);
    if (status == 0)
        okv_local_advertised_close(&conn->advertised[index]);
    if (status == 0 && fd >= 0 && is_sealed_memory(fd, size))
        conn->advertised[index] = (struct okv_local_advertised){key, fd, size};
    else if (fd >= 0)
        close(fd);
    return status;
}

void okv_local_advertised_close_all(struct okv_local_conn *conn)
{
    for (unsigned i = 0; conn->advertised && i < advert_count(conn); i++)
        okv_local_advertised_close(&conn->advertised[i]);
}

struct okv_local_advertised *okv_local_advertised_find(struct okv_local_conn *conn, uint32_t key)
{
    unsigned index = key % INDEX_COUNT_MAX;

    if (!conn->advertised || index >= advert_count(conn) || conn->advertised[index].key != key ||
        conn->advertised[index].fd < 0)
        return NULL;
    return &conn->advertised[index];
}
