/*
 * The listener: the region, and clients on the control port.
 *
 * A client is greeted at once, and pending until its hello. A slow one holds up nobody: pending
 * clients are watched together and dropped after a while, and the oldest makes room when there are
 * too many.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/ofi/ofi.h"

/* Events that one next_request handles without a result. The descriptor stays readable for the
 * others. */
#define STEPS_MAX 256

/* ---- opening ---- */

static int diagnose_bind(int errnum, const struct okv_uri *uri, struct okv_diag *diag)
{
    switch (errnum) {
    case EADDRINUSE:
        return okv_diag_set(diag, OKV_EAGAIN,
                            "port %s of %s is in use: another server listens there, or choose "
                            "another port",
                            uri->port, uri->host);
    case EADDRNOTAVAIL:
        return okv_diag_set(diag, OKV_EADDRESS,
                            "no network device of this machine has the address %s: see 'ip addr'",
                            uri->host);
    default:
        return okv_diag_set(diag, okv_error_from_errno(errnum), "cannot listen on %s port %s: %s",
                            uri->host, uri->port, strerror(errnum));
    }
}

static int open_socket(struct ofi_listener *l, const struct okv_uri *uri,
                       const struct addrinfo *address, struct okv_diag *diag)
{
    const int one = 1;
    int sock = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (sock < 0)
        return diagnose_bind(errno, uri, diag);
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* after a restart */
    if (bind(sock, address->ai_addr, address->ai_addrlen) || listen(sock, OFI_PENDING_MAX)) {
        int errnum = errno;
        close(sock);
        return diagnose_bind(errnum, uri, diag);
    }
    l->sock = sock;
    return 0;
}

static int watch(int epoll, int fd, void *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static int open_descriptors(struct ofi_listener *l, struct okv_diag *diag)
{
    l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    l->base.fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->timer < 0 || l->spare < 0 || l->base.fd < 0 || watch(l->base.fd, l->sock, &l->sock) ||
        watch(l->base.fd, l->timer, &l->timer))
        return okv_diag_set(diag, okv_error_from_errno(errno),
                            "no descriptor to listen with (%s): raise the limit on open files "
                            "(ulimit -n)",
                            strerror(errno));
    return 0;
}

static void close_descriptors(struct ofi_listener *l)
{
    const int fds[] = {l->base.fd, l->spare, l->timer, l->sock};

    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

static int open_region(struct ofi_listener *l, const struct okv_uri *uri, const char *host,
                       struct okv_diag *diag)
{
    int rc = okv_ofi_fabric_open(uri->provider, host, true, &l->fabric, diag);

    if (rc)
        return rc;
    rc = okv_ofi_protection_check(&l->fabric, diag);
    /* FI_READ: rendezvous reads of ours arrive in it. */
    if (rc == 0)
        rc = okv_ofi_region_open(&l->fabric, l->memory.base, l->memory.length,
                                 FI_READ | FI_REMOTE_READ, &l->region, diag);
    if (rc)
        okv_ofi_fabric_close(&l->fabric);
    return rc;
}

static void describe(struct ofi_listener *l, const struct okv_uri *uri)
{
    bool is_ipv6 = strchr(uri->host, ':') != NULL;

    snprintf(l->base.where, sizeof l->base.where, is_ipv6 ? "ofi://[%.128s]:%s" : "ofi://%.128s:%s",
             uri->host, uri->port);
    snprintf(l->base.how, sizeof l->base.how, "libfabric provider %s, %s",
             okv_ofi_fabric_name(&l->fabric),
             l->fabric.is_one_sided ? "READs served by the device"
                                    : "READs served by this process");
}

int okv_ofi_listen(const struct okv_uri *uri, const struct okv_region *region,
                   struct okv_listener **out, struct okv_diag *diag)
{
    struct addrinfo *found;
    char host[64];

    if (strcmp(uri->host, "*") == 0)
        return okv_diag_set(diag, OKV_EADDRESS,
                            "an ofi listener needs one address, which clients reach: write for "
                            "example ofi://10.0.0.1");
    int rc = okv_resolve(uri->host, uri->port, 0, &found, diag);
    if (rc)
        return rc;
    struct ofi_listener *l = calloc(1, sizeof *l);
    if (!l) {
        rc = okv_diag_set(diag, OKV_ENOMEM, "no memory for a listener");
        goto free_found;
    }
    l->base.ops = &okv_transport_ofi;
    l->memory = *region;
    l->base.fd = l->timer = l->spare = l->sock = -1;
    rc = open_socket(l, uri, found, diag);
    if (rc)
        goto free_listener;
    rc = open_descriptors(l, diag);
    if (rc)
        goto close_descriptors;
    okv_ofi_address_text(found->ai_addr, found->ai_addrlen, NULL, 0, host, sizeof host);
    rc = open_region(l, uri, host, diag);
    if (rc)
        goto close_descriptors;
    describe(l, uri);
    freeaddrinfo(found);
    *out = &l->base;
    return 0;

close_descriptors:
    close_descriptors(l);
free_listener:
    free(l);
free_found:
    freeaddrinfo(found);
    return rc;
}

/* ---- pending clients ---- */

static void request_free(struct ofi_request *request)
{
    if (request->sock >= 0)
        close(request->sock);
    free(request);
}

void okv_ofi_unlisten(struct okv_listener *listener)
{
    struct ofi_listener *l = (struct ofi_listener *)listener;

    while (l->oldest) {
        struct ofi_request *request = l->oldest;
        l->oldest = request->next;
        request_free(request);
    }
    okv_ofi_region_close(&l->region);
    okv_ofi_fabric_close(&l->fabric);
    close_descriptors(l);
    free(l);
}

/* Sets the timer to the moment when the oldest pending client is dropped. */
static void set_timer(const struct ofi_listener *l)
{
    struct itimerspec when = {0};

    if (l->oldest) {
        when.it_value.tv_sec = (time_t)(l->oldest->drop_at_ns / 1000000000u);
        when.it_value.tv_nsec = (long)(l->oldest->drop_at_ns % 1000000000u);
    }
    timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void pending_add(struct ofi_listener *l, struct ofi_request *request)
{
    request->previous = l->newest;
    if (l->newest)
        l->newest->next = request;
    else
        l->oldest = request;
    l->newest = request;
    l->pending++;
    if (l->oldest == request)
        set_timer(l);
}

static void pending_remove(struct ofi_listener *l, struct ofi_request *request)
{
    bool was_oldest = l->oldest == request;

    if (request->previous)
        request->previous->next = request->next;
    else
        l->oldest = request->next;
    if (request->next)
        request->next->previous = request->previous;
    else
        l->newest = request->previous;
    request->previous = request->next = NULL;
    l->pending--;
    if (was_oldest)
        set_timer(l);
}

static void drop(struct ofi_listener *l, struct ofi_request *request)
{
    pending_remove(l, request);
    request_free(request);
}

static void drop_overdue(struct ofi_listener *l)
{
    uint64_t now = okv_clock_ns();

    while (l->oldest && l->oldest->drop_at_ns <= now)
        drop(l, l->oldest);
    set_timer(l); /* also makes its descriptor unreadable */
}

/* Turns one client away when no descriptor is left for it. Otherwise its connect would keep the
 * listener's descriptor readable for ever. */
static void turn_away(struct ofi_listener *l)
{
    close(l->spare);
    int sock = accept4(l->sock, NULL, NULL, SOCK_CLOEXEC);
    if (sock >= 0)
        close(sock);
    l->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int greet(const struct ofi_listener *l, int sock)
{
    struct ofi_frame frame;

    okv_ofi_frame_begin(&frame, OFI_GREETING);
    snprintf((char *)frame.body.greeting.provider, OFI_PROVIDER_MAX, "%s",
             okv_ofi_fabric_name(&l->fabric));
    return okv_ofi_control_send(sock, &frame);
}

static void accept_client(struct ofi_listener *l)
{
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    int sock = accept4(l->sock, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (sock < 0) {
        if (errno == EMFILE || errno == ENFILE)
            turn_away(l);
        return;
    }
    if (l->pending == OFI_PENDING_MAX)
        drop(l, l->oldest);
    struct ofi_request *request = calloc(1, sizeof *request);
    if (!request) {
        close(sock);
        return;
    }
    request->base.listener = &l->base;
    request->sock = sock;
    request->drop_at_ns = okv_clock_ns() + OFI_PENDING_NS;
    okv_ofi_address_text((struct sockaddr *)&peer, length, request->base.peer,
                         sizeof request->base.peer, request->base.address,
                         sizeof request->base.address);
    if (okv_ofi_control_prepare(sock) || greet(l, sock) || watch(l->base.fd, sock, request)) {
        request_free(request);
        return;
    }
    pending_add(l, request);
}

/* True when the hello is complete. A client that sends anything else is dropped. */
static bool read_hello(struct ofi_listener *l, struct ofi_request *request)
{
    int rc = okv_ofi_control_receive(request->sock, &request->frame, &request->got);

    if (rc == 0)
        return false;
    if (rc < 0 || request->frame.header.kind != OFI_HELLO) {
        drop(l, request);
        return false;
    }
    epoll_ctl(l->base.fd, EPOLL_CTL_DEL, request->sock, NULL);
    pending_remove(l, request);
    request->base.hello = request->frame.body.hello.bytes;
    request->base.hello_length = request->frame.body.hello.length;
    return true;
}

int okv_ofi_next_request(struct okv_listener *listener, struct okv_request **out)
{
    struct ofi_listener *l = (struct ofi_listener *)listener;
    struct epoll_event event;

    for (int step = 0; step < STEPS_MAX; step++) {
        int count = epoll_wait(listener->fd, &event, 1, 0);
        if (count < 0 && errno != EINTR)
            return okv_error_from_errno(errno);
        if (count <= 0)
            return 0;
        if (event.data.ptr == &l->sock) {
            accept_client(l);
        } else if (event.data.ptr == &l->timer) {
            drop_overdue(l);
        } else if (read_hello(l, event.data.ptr)) {
            struct ofi_request *request = event.data.ptr;
            *out = &request->base;
            return 1;
        }
    }
    return 0;
}

/* ---- answers ---- */

/* Answers the hello and hands the connection over, under the lock: a message of the client may
 * reach the endpoint's thread before the answer is sent here, and must then find the connection. */
static int answer(struct ofi_conn *conn, const uint8_t *welcome, size_t length)
{
    struct ofi_endpoint *ep = ofi_endpoint_of(conn);
    const struct ofi_listener *l = ep->listener;
    struct ofi_frame frame;

    okv_ofi_frame_begin(&frame, OFI_WELCOME);
    okv_ofi_conn_tell_place(conn, &frame.body.welcome.place);
    frame.body.welcome.region_address = okv_le64_of(l->region.address);
    frame.body.welcome.region_key = okv_le64_of(l->region.key);
    frame.body.welcome.region_length = okv_le64_of(l->memory.length);
    frame.body.welcome.length = (uint8_t)length;
    memcpy(frame.body.welcome.bytes, welcome, length);
    pthread_mutex_lock(&ep->lock);
    int rc = okv_ofi_control_send(conn->control, &frame);
    if (rc == 0) {
        *ep->opened_tail = conn;
        ep->opened_tail = &conn->next_opened;
        atomic_store(&ep->has_opened, true);
    }
    pthread_mutex_unlock(&ep->lock);
    return rc;
}

int okv_ofi_accept(struct okv_request *request, struct okv_endpoint *endpoint, void *user,
                   const uint8_t *welcome, size_t length)
{
    struct ofi_request *r = (struct ofi_request *)request;
    struct ofi_conn *conn;

    if (length > OKV_WELCOME_MAX)
        return OKV_EINVAL;
    int rc = okv_ofi_conn_new((struct ofi_endpoint *)endpoint, &conn, NULL);
    if (rc)
        return rc;
    conn->base.user = user;
    snprintf(conn->base.peer, sizeof conn->base.peer, "%s", request->peer);
    snprintf(conn->base.how, sizeof conn->base.how, "%s", request->listener->how);
    conn->control = r->sock;
    rc = okv_ofi_conn_find_peer(conn, &r->frame.body.hello.place);
    if (rc)
        goto return_control;
    rc = answer(conn, welcome, length);
    if (rc)
        goto return_control;
    okv_ofi_wake(endpoint);
    free(r);
    return 0;

return_control:
    conn->control = -1; /* the caller rejects on it */
    okv_ofi_conn_free(conn);
    return rc;
}

void okv_ofi_reject(struct okv_request *request, const uint8_t *reason, size_t length)
{
    struct ofi_request *r = (struct ofi_request *)request;
    struct ofi_frame frame;

    okv_ofi_frame_begin(&frame, OFI_REJECT);
    frame.body.reject.length = (uint8_t)(length < OKV_REJECT_MAX ? length : OKV_REJECT_MAX);
    memcpy(frame.body.reject.bytes, reason, frame.body.reject.length);
    okv_ofi_control_send(r->sock, &frame);
    request_free(r);
}
