/*
 * Advertised buffers and rendezvous reads of the local transport: the client sends a sealed copy of
 * its memory, the server reads it into the region.
 *
 * What a client sends is a descriptor of anything. The server never maps it and
 * takes memfds only: reading from one neither blocks nor faults, which is more
 * than can be said of a pipe, or of a file on a file system that the client serves.
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

/* A key is the number of a place and, above it, how often that place was used. */
#define PLACE_BITS 16
#define PLACES_MAX (1u << PLACE_BITS)

/* Looks for an advertised buffer on the socket, more than it takes to empty one that was full. */
#define HEAR_MAX 256

/* Places for advertised buffers of one connection: one for each credit. */
static unsigned place_count(const struct okv_local_conn *conn)
{
    uint32_t credits = okv_local_endpoint(conn->base.endpoint)->limits.credits;

    return credits < PLACES_MAX ? credits : PLACES_MAX;
}

static int error_from_errno(int errnum)
{
    switch (errnum) {
    case EMFILE:
    case ENFILE:
    case ETOOMANYREFS:
        return OKV_EPERM;
    case ENOSPC:
        return OKV_ENOMEM;
    default:
        return okv_error_from_errno(errnum);
    }
}

/* ---- the client ---- */

/* A copy that nobody can change any more. */
static int make_copy(const void *base, size_t length, int *out)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
    const uint8_t *bytes = base;
    size_t done = 0;
    int errnum;
    int fd = memfd_create("okv-advertised buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return error_from_errno(errno);
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
    return error_from_errno(errnum);
}

/* The lowest place, so that a client with one advertised buffer at a time keeps one copy alive. */
static int take_key(struct okv_local_conn *conn, uint32_t *out)
{
    unsigned count = place_count(conn);

    if (!conn->keys)
        conn->keys = calloc(count, sizeof *conn->keys);
    if (!conn->keys)
        return OKV_ENOMEM;
    for (unsigned i = 0; i < count; i++) {
        struct okv_local_key *key = &conn->keys[i];
        if (!key->taken) {
            key->taken = true;
            key->uses++;
            *out = (uint32_t)key->uses << PLACE_BITS | i;
            return 0;
        }
    }
    return OKV_EAGAIN;
}

static void give_key_back(struct okv_local_conn *conn, uint32_t key)
{
    conn->keys[key % PLACES_MAX].taken = false;
}

int okv_local_transmit_advert(struct okv_local_advert *advert)
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
        return error_from_errno(errno);
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
    status = take_key(conn, &advert->base.key);
    if (status)
        goto free_advert;
    status = make_copy(bytes, length, &advert->fd);
    if (status)
        goto give_key_back;
    status = OKV_EAGAIN;
    if (!conn->unsent)
        status = okv_local_transmit_advert(advert);
    if (status == OKV_EAGAIN)
        queue_unsent(advert); /* the message that names it waits for it */
    else if (status)
        goto close_copy;
    *out = &advert->base;
    return 0;
close_copy:
    close(advert->fd);
give_key_back:
    give_key_back(conn, advert->base.key);
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
    give_key_back(advert->conn, base->key);
    free(advert);
}

/* ---- the server ---- */

static bool is_memory(int fd, uint64_t size)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS); /* fails for what is no memfd */

    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &file) == 0 &&
           S_ISREG(file.st_mode) && file.st_size >= 0 && (uint64_t)file.st_size >= size;
}

static void use_up(struct okv_local_advertised *advertised)
{
    if (advertised->fd >= 0)
        close(advertised->fd);
    *advertised = (struct okv_local_advertised){.fd = -1};
}

static int make_places(struct okv_local_conn *conn)
{
    unsigned count = place_count(conn);

    conn->advertised = calloc(count, sizeof *conn->advertised);
    if (!conn->advertised)
        return OKV_ENOMEM;
    for (unsigned i = 0; i < count; i++)
        conn->advertised[i].fd = -1;
    return 0;
}

int okv_local_take_advert(struct okv_local_conn *conn, const uint8_t *bytes, int fd)
{
    uint32_t key = okv_get_u32(bytes);
    uint64_t size = okv_get_u64(bytes + 4);
    unsigned place = key % PLACES_MAX;
    int status = place < place_count(conn) ? 0 : OKV_EPROTO;

    if (status == 0 && !conn->advertised)
        status = make_places(conn);
    if (status == 0)
        use_up(&conn->advertised[place]);
    if (status == 0 && fd >= 0 && is_memory(fd, size))
        conn->advertised[place] = (struct okv_local_advertised){key, fd, size};
    else if (fd >= 0)
        close(fd);
    return status;
}

void okv_local_forget_adverts(struct okv_local_conn *conn)
{
    for (unsigned i = 0; conn->advertised && i < place_count(conn); i++)
        use_up(&conn->advertised[i]);
}

static int copy_advertised(const struct okv_local_advertised *advertised,
                           const struct okv_rendezvous *rendezvous, uint8_t *to)
{
    uint32_t done = 0;

    if (!okv_range_inside(rendezvous->address, rendezvous->length, advertised->size))
        return OKV_ERENDEZVOUS;
    while (done < rendezvous->length) {
        ssize_t n = pread(advertised->fd, to + done, rendezvous->length - done,
                          (off_t)(rendezvous->address + done));
        if (n == 0 || (n < 0 && errno != EINTR))
            return OKV_ERENDEZVOUS;
        done += n > 0 ? (uint32_t)n : 0;
    }
    return 0;
}

static struct okv_local_advertised *find_advertised(struct okv_local_conn *conn, uint32_t key)
{
    unsigned place = key % PLACES_MAX;

    if (!conn->advertised || place >= place_count(conn) || conn->advertised[place].key != key ||
        conn->advertised[place].fd < 0)
        return NULL;
    return &conn->advertised[place];
}

static int rendezvous_now(struct okv_local_conn *conn, const struct okv_rendezvous *rendezvous)
{
    const struct okv_region *region = &okv_local_endpoint(conn->base.endpoint)->region;
    struct okv_local_advertised *advertised = find_advertised(conn, rendezvous->key);

    /* The message that names it may have been faster through the ring. */
    for (unsigned i = 0; !advertised && i < HEAR_MAX && okv_local_hear(conn) > 0; i++)
        advertised = find_advertised(conn, rendezvous->key);
    if (!advertised)
        return OKV_ERENDEZVOUS;
    int status =
        copy_advertised(advertised, rendezvous, (uint8_t *)region->base + rendezvous->offset);
    use_up(advertised);
    return status;
}

int okv_local_rendezvous(struct okv_conn *base, const struct okv_rendezvous *rendezvous)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base->endpoint);

    /* A client's endpoint has a region of length 0. */
    if (rendezvous->length == 0 ||
        !okv_range_inside(rendezvous->offset, rendezvous->length, endpoint->region.length))
        return OKV_EINVAL;
    if (conn->state != OKV_LOCAL_OPEN)
        return OKV_EDISCONNECTED;
    if (conn->rendezvous_count == OKV_RENDEZVOUS_MAX)
        return OKV_EAGAIN;
    if (conn->rendezvous_count == 0) {
        conn->next_rendezvous_done = NULL;
        *endpoint->rendezvous_done_tail = conn;
        endpoint->rendezvous_done_tail = &conn->next_rendezvous_done;
    }
    conn->rendezvous_reads[(conn->rendezvous_first + conn->rendezvous_count++) %
                           OKV_RENDEZVOUS_MAX] =
        (struct okv_local_done){rendezvous->cookie, rendezvous_now(conn, rendezvous)};
    base->acknowledged++;
    okv_local_announce(endpoint);
    return 0;
}

int okv_local_report_rendezvous_done(struct okv_local_endpoint *endpoint, struct okv_event *events,
                                     int max)
{
    int n = 0;

    while (n < max && endpoint->rendezvous_done) {
        struct okv_local_conn *conn = endpoint->rendezvous_done;
        const struct okv_local_done *done = &conn->rendezvous_reads[conn->rendezvous_first];
        events[n++] = (struct okv_event){
            .type = OKV_EVENT_RENDEZVOUS_DONE,
            .status = done->status,
            .conn = &conn->base,
            .cookie = done->cookie,
        };
        conn->rendezvous_first = (conn->rendezvous_first + 1) % OKV_RENDEZVOUS_MAX;
        if (--conn->rendezvous_count > 0)
            continue;
        endpoint->rendezvous_done = conn->next_rendezvous_done;
        if (!endpoint->rendezvous_done)
            endpoint->rendezvous_done_tail = &endpoint->rendezvous_done;
    }
    return n;
}
