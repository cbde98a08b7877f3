/*
 * Exposures and pulls of the local transport: the client sends a sealed copy of
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

/* Looks for an exposure on the socket, more than it takes to empty one that was full. */
#define HEAR_MAX 256

/* Places for exposures of one connection: one for each credit. */
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
    int fd = memfd_create("okv-exposure", MFD_CLOEXEC | MFD_ALLOW_SEALING);

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

/* The lowest place, so that a client with one exposure at a time keeps one copy alive. */
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

int okv_local_transmit_exposure(struct okv_local_exposure *exposure)
{
    uint8_t packet[OKV_LOCAL_EXPOSURE_SIZE];
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

    okv_put_u32(packet, OKV_LOCAL_EXPOSURE_MARK);
    okv_put_u32(packet + 4, exposure->base.key);
    okv_put_u64(packet + 8, exposure->size);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof exposure->fd);
    memcpy(CMSG_DATA(&control.header), &exposure->fd, sizeof exposure->fd);
    do {
        sent = sendmsg(exposure->conn->sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return error_from_errno(errno);
    close(exposure->fd);
    exposure->fd = -1;
    return 0;
}

static void queue_unsent(struct okv_local_exposure *exposure)
{
    struct okv_local_conn *conn = exposure->conn;
    struct okv_local_exposure **link = &conn->unsent;

    while (*link)
        link = &(*link)->next;
    *link = exposure;
}

static void unqueue_unsent(struct okv_local_exposure *exposure)
{
    struct okv_local_exposure **link = &exposure->conn->unsent;

    while (*link && *link != exposure)
        link = &(*link)->next;
    if (*link)
        *link = exposure->next;
}

int okv_local_expose(struct okv_conn *base, const void *bytes, size_t length,
                     struct okv_exposure **out)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct okv_local_exposure *exposure;
    int status;

    if (!okv_local_endpoint(base->endpoint)->client || length == 0)
        return OKV_EINVAL;
    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return OKV_EDISCONNECTED;
    exposure = calloc(1, sizeof *exposure);
    if (!exposure)
        return OKV_ENOMEM;
    exposure->conn = conn;
    exposure->size = length;
    exposure->goes_before = conn->sent + conn->send_queued;
    status = take_key(conn, &exposure->base.key);
    if (status)
        goto free_exposure;
    status = make_copy(bytes, length, &exposure->fd);
    if (status)
        goto give_key_back;
    status = OKV_EAGAIN;
    if (!conn->unsent)
        status = okv_local_transmit_exposure(exposure);
    if (status == OKV_EAGAIN)
        queue_unsent(exposure); /* the message that names it waits for it */
    else if (status)
        goto close_copy;
    *out = &exposure->base;
    return 0;
close_copy:
    close(exposure->fd);
give_key_back:
    give_key_back(conn, exposure->base.key);
free_exposure:
    free(exposure);
    return status;
}

void okv_local_unexpose(struct okv_exposure *base)
{
    struct okv_local_exposure *exposure = (struct okv_local_exposure *)base;

    if (!exposure)
        return;
    unqueue_unsent(exposure);
    if (exposure->fd >= 0)
        close(exposure->fd);
    give_key_back(exposure->conn, base->key);
    free(exposure);
}

/* ---- the server ---- */

static bool is_memory(int fd, uint64_t size)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS); /* fails for what is no memfd */

    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &file) == 0 &&
           S_ISREG(file.st_mode) && file.st_size >= 0 && (uint64_t)file.st_size >= size;
}

static void use_up(struct okv_local_exposed *exposed)
{
    if (exposed->fd >= 0)
        close(exposed->fd);
    *exposed = (struct okv_local_exposed){.fd = -1};
}

static int make_places(struct okv_local_conn *conn)
{
    unsigned count = place_count(conn);

    conn->exposed = calloc(count, sizeof *conn->exposed);
    if (!conn->exposed)
        return OKV_ENOMEM;
    for (unsigned i = 0; i < count; i++)
        conn->exposed[i].fd = -1;
    return 0;
}

int okv_local_take_exposure(struct okv_local_conn *conn, const uint8_t *bytes, int fd)
{
    uint32_t key = okv_get_u32(bytes);
    uint64_t size = okv_get_u64(bytes + 4);
    unsigned place = key % PLACES_MAX;
    int status = place < place_count(conn) ? 0 : OKV_EPROTO;

    if (status == 0 && !conn->exposed)
        status = make_places(conn);
    if (status == 0)
        use_up(&conn->exposed[place]);
    if (status == 0 && fd >= 0 && is_memory(fd, size))
        conn->exposed[place] = (struct okv_local_exposed){key, fd, size};
    else if (fd >= 0)
        close(fd);
    return status;
}

void okv_local_forget_exposures(struct okv_local_conn *conn)
{
    for (unsigned i = 0; conn->exposed && i < place_count(conn); i++)
        use_up(&conn->exposed[i]);
}

static int copy_exposed(const struct okv_local_exposed *exposed, const struct okv_pull *pull,
                        uint8_t *to)
{
    uint32_t done = 0;

    if (!okv_range_inside(pull->address, pull->length, exposed->size))
        return OKV_EPULL;
    while (done < pull->length) {
        ssize_t n =
            pread(exposed->fd, to + done, pull->length - done, (off_t)(pull->address + done));
        if (n == 0 || (n < 0 && errno != EINTR))
            return OKV_EPULL;
        done += n > 0 ? (uint32_t)n : 0;
    }
    return 0;
}

static struct okv_local_exposed *find_exposed(struct okv_local_conn *conn, uint32_t key)
{
    unsigned place = key % PLACES_MAX;

    if (!conn->exposed || place >= place_count(conn) || conn->exposed[place].key != key ||
        conn->exposed[place].fd < 0)
        return NULL;
    return &conn->exposed[place];
}

static int pull_now(struct okv_local_conn *conn, const struct okv_pull *pull)
{
    const struct okv_exposed_region *region = &okv_local_endpoint(conn->base.endpoint)->region;
    struct okv_local_exposed *exposed = find_exposed(conn, pull->key);

    /* The message that names it may have been faster through the ring. */
    for (unsigned i = 0; !exposed && i < HEAR_MAX && okv_local_hear(conn) > 0; i++)
        exposed = find_exposed(conn, pull->key);
    if (!exposed)
        return OKV_EPULL;
    int status = copy_exposed(exposed, pull, (uint8_t *)region->base + pull->offset);
    use_up(exposed);
    return status;
}

int okv_local_pull(struct okv_conn *base, const struct okv_pull *pull)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base->endpoint);

    /* A client's endpoint has a region of length 0. */
    if (pull->length == 0 || !okv_range_inside(pull->offset, pull->length, endpoint->region.length))
        return OKV_EINVAL;
    if (conn->state != OKV_LOCAL_OPEN)
        return OKV_EDISCONNECTED;
    if (conn->pull_count == OKV_PULLS_MAX)
        return OKV_EAGAIN;
    if (conn->pull_count == 0) {
        conn->next_pulled = NULL;
        *endpoint->pulled_tail = conn;
        endpoint->pulled_tail = &conn->next_pulled;
    }
    conn->pulls[(conn->pull_first + conn->pull_count++) % OKV_PULLS_MAX] =
        (struct okv_local_done){pull->cookie, pull_now(conn, pull)};
    base->acknowledged++;
    okv_local_announce(endpoint);
    return 0;
}

int okv_local_report_pulled(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    int n = 0;

    while (n < max && endpoint->pulled) {
        struct okv_local_conn *conn = endpoint->pulled;
        const struct okv_local_done *done = &conn->pulls[conn->pull_first];
        events[n++] = (struct okv_event){
            .type = OKV_EVENT_PULLED,
            .status = done->status,
            .conn = &conn->base,
            .cookie = done->cookie,
        };
        conn->pull_first = (conn->pull_first + 1) % OKV_PULLS_MAX;
        if (--conn->pull_count > 0)
            continue;
        endpoint->pulled = conn->next_pulled;
        if (!endpoint->pulled)
            endpoint->pulled_tail = &endpoint->pulled;
    }
    return n;
}
