/* The client's connect, step by step. All addresses and attempts share one event channel, so its
 * descriptor stays the same until the end. */
#include "shared/transport/verbs/connect.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/fork_guard.h"
#include "shared/devices/choice.h"
#include "shared/discovery/find.h"
#include "shared/transport/verbs/attempt.h"
#include "shared/transport/verbs/device.h"
#include "shared/transport/verbs/diagnose.h"

/* The connection manager itself would try for a minute and a half to reach a host that never
 * answers. */
#define CONNECT_LIMIT_NS UINT64_C(4500000000)
#define ATTEMPTS 3 /* to one address */
/* A server forgets the number of a queue pair half a second to two seconds after its connection has
 * ended (IBTA specification 12.9.8.4). */
static const uint64_t STALE_PAUSES_NS[] = {100000000, 300000000, 900000000};
#define STALE_PAUSES (sizeof STALE_PAUSES_NS / sizeof *STALE_PAUSES_NS)
_Static_assert(STALE_PAUSES + 1 <= VERBS_STALE_MAX, "all attempts keep their numbers");

/* To the connection manager a device is the source address of one of its GIDs. */
static int choose_source(struct okv_uri *uri, int family, struct okv_diag *diag)
{
    struct okv_ports ports;
    char address[OKV_CHOICE_SIZE];

    if (!uri->device[0])
        return 0;
    int rc = okv_ports_read("", &ports, diag);
    if (rc)
        return rc;
    rc = okv_device_choose(&ports, uri, family, uri->source, address, diag);
    if (rc == 0)
        snprintf(uri->source, sizeof uri->source, "%s", address);
    okv_ports_fini(&ports);
    return rc;
}

/* Servers are looked for over IPv4. */
static int find_server(struct verbs_connecting *c, struct okv_diag *diag)
{
    struct rdma_event_channel *channel;
    int rc = choose_source(&c->uri, AF_INET, diag);

    /* Where a channel cannot be had it says why, and the search would say that there is no
     * interface. */
    if (rc == 0)
        rc = okv_verbs_channel(&channel, diag);
    if (rc)
        return rc;
    rdma_destroy_event_channel(channel);
    if (okv_fork_guard_is_child()) /* its queue pairs would use the parent's context */
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "a forked child cannot search over RDMA: name the server's address "
                            "instead of %s",
                            c->uri.name);
    return okv_discovery_find(&c->uri, c->deadline_ns, diag);
}

static int resolve_host(struct verbs_connecting *c, struct okv_diag *diag)
{
    int rc = c->uri.name[0] ? find_server(c, diag) : 0;
    if (rc)
        return rc;
    rc = okv_resolve(c->uri.host, c->uri.port, 0, &c->addresses, diag);
    if (rc)
        return rc;
    c->address = c->addresses;
    c->attempts = 1;
    /* The first address of which the device has the kind. */
    rc = choose_source(&c->uri, c->address->ai_family, diag);
    while (rc == OKV_EADDRESS && c->address->ai_next) {
        c->address = c->address->ai_next;
        rc = choose_source(&c->uri, c->address->ai_family, diag);
    }
    if (rc == 0 && c->uri.source[0])
        rc = okv_resolve(c->uri.source, NULL, AI_NUMERICHOST, &c->source, diag);
    return rc;
}

static void release(struct verbs_connecting *c)
{
    if (c->addresses)
        freeaddrinfo(c->addresses);
    if (c->source)
        freeaddrinfo(c->source);
    okv_verbs_attempt_forget(c);
    if (c->channel)
        rdma_destroy_event_channel(c->channel);
    free(c);
}

int okv_verbs_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                            struct okv_connecting **out, struct okv_diag *diag)
{
    uint64_t now = okv_clock_ns();
    uint64_t limit = now + CONNECT_LIMIT_NS;

    struct verbs_connecting *c = calloc(1, sizeof *c);
    if (!c)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory to connect");
    c->uri = *uri;
    c->limits = params->limits;
    c->deadline_ns = params->deadline_ns < limit ? params->deadline_ns : limit;
    int rc = okv_hello_init(&c->hello, params, diag);
    if (rc == 0)
        rc = resolve_host(c, diag);
    if (rc)
        goto release_it;
    rc = okv_verbs_channel(&c->channel, diag);
    if (rc)
        goto release_it;
    c->base.ops = &okv_transport_verbs;
    c->base.fd = c->channel->fd;
    c->base.wake_ns = now; /* the first attempt begins with the first step */
    *out = &c->base;
    return 0;

release_it:
    release(c);
    return rc;
}

/* Handles the next event. OKV_EAGAIN when there is none and the step still has time. */
static int next_event(struct verbs_connecting *c)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(c->channel, &event)) {
        if (errno == EINTR)
            return 0;
        if (errno != EAGAIN)
            return okv_diag_set(&c->diag, OKV_EIO, "the RDMA connection manager failed: %s",
                                strerror(errno));
        c->base.wake_ns = c->attempt.deadline_ns;
        if (okv_clock_ns() < c->attempt.deadline_ns)
            return OKV_EAGAIN;
        c->attempt.again = c->attempt.step == VERBS_STEP_ANSWER;
        return okv_verbs_diagnose_silence(c);
    }
    int rc = event->id == c->attempt.id ? okv_verbs_attempt_event(c, event) : 0;
    rdma_ack_cm_event(event); /* destroying its id would wait for this */
    return rc;
}

/* Advances the attempt until it succeeds, fails or has to wait. */
static int advance(struct verbs_connecting *c)
{
    if (!c->attempt.id && okv_clock_ns() < c->pause_until_ns) {
        c->base.wake_ns = c->pause_until_ns;
        return OKV_EAGAIN;
    }
    int rc = c->attempt.id ? 0 : okv_verbs_attempt_begin(c);
    while (rc == 0 && c->attempt.step != VERBS_STEP_DONE)
        rc = next_event(c);
    return rc;
}

/* An attempt failed with `rc`. True when another one follows. */
static bool choose_next(struct verbs_connecting *c, int rc)
{
    if (okv_clock_ns() >= c->deadline_ns)
        return false;
    if (c->attempt.is_stale && c->attempts <= STALE_PAUSES) {
        c->pause_until_ns = okv_clock_ns() + STALE_PAUSES_NS[c->attempts++ - 1];
        return true;
    }
    if (c->attempt.again && c->attempts < ATTEMPTS) {
        c->attempts++;
        return true;
    }
    /* Only a wrong address or a host that is down leads to the next address, of the source's kind.
     */
    const struct addrinfo *next = c->address->ai_next;
    while (next && c->source && next->ai_family != c->source->ai_family)
        next = next->ai_next;
    if ((rc != OKV_EADDRESS && rc != OKV_ETIMEDOUT) || !next)
        return false;
    c->address = next;
    c->attempts = 1;
    return true;
}

/* Advances until there is a result. */
static int advance_all(struct verbs_connecting *c)
{
    int rc = advance(c);

    while (rc && rc != OKV_EAGAIN && okv_hello_renew(&c->hello, &c->answer, &c->attempt.binding)) {
        rc = okv_verbs_attempt_renew(c);
        if (rc == 0)
            rc = advance(c);
    }
    return rc;
}

int okv_verbs_connect_step(struct okv_connecting *connecting, struct okv_answer *answer,
                           struct okv_conn **out, struct okv_diag *diag)
{
    struct verbs_connecting *c = (struct verbs_connecting *)connecting;
    bool next;
    int rc;

    do {
        rc = advance_all(c);
        if (rc == OKV_EAGAIN)
            return rc;
        next = rc != 0 && choose_next(c, rc);
        if (rc)
            okv_verbs_attempt_end(c);
    } while (next);
    *answer = c->answer;
    if (rc == 0)
        *out = okv_verbs_attempt_finish(c);
    else if (diag)
        *diag = c->diag;
    release(c);
    return rc;
}

void okv_verbs_connect_cancel(struct okv_connecting *connecting)
{
    struct verbs_connecting *c = (struct verbs_connecting *)connecting;
    if (!c)
        return;
    okv_verbs_attempt_end(c);
    release(c);
}
