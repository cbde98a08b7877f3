#include "shared/transport/verbs/diagnose.h"

#include <errno.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/transport/verbs/device.h"

/* Reasons of a rejection, as rdma_cm passes them on from the InfiniBand connection manager (IBTA
 * specification 12.6.7.2). */
enum {
    REJECT_NO_RESOURCES = 3,
    REJECT_NO_LISTENER = 8,
    REJECT_STALE = 10,
    REJECT_BY_CONSUMER = 28,
};

static const char *const DOING[] = {
    [VERBS_STEP_ADDRESS] = "resolving its address",
    [VERBS_STEP_ROUTE] = "resolving its route",
    [VERBS_STEP_ANSWER] = "connecting",
    [VERBS_STEP_DONE] = "connected",
};

int okv_verbs_diagnose_silence(struct verbs_connecting *c)
{
    return okv_diag_set(&c->diag, OKV_ETIMEDOUT,
                        "%s:%s did not answer in time while %s: check that the host is up, that "
                        "its server runs, and that RDMA traffic (UDP 4791 for RoCE) gets through",
                        c->uri.host, c->uri.port, DOING[c->attempt.step]);
}

int okv_verbs_diagnose_route(struct verbs_connecting *c, int errnum)
{
    const char *host = c->uri.host;
    char names[96];
    switch (errnum) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
        return okv_diag_set(&c->diag, OKV_ETIMEDOUT,
                            "the host %s does not answer on the network: check that it is up and "
                            "reachable ('ping %s')",
                            host, host);
    case EADDRNOTAVAIL:
        if (c->uri.source[0])
            return okv_diag_set(&c->diag, OKV_EADDRESS,
                                "no network device of this machine has the source address %s: "
                                "see 'ip addr'",
                                c->uri.source);
        /* fall through */
    case ENODEV:
        okv_verbs_device_names(names, sizeof names);
        return okv_diag_set(&c->diag, OKV_EADDRESS,
                            "no RDMA device of this machine (%s) has a route to %s: 'ip route get "
                            "%s' must name a network device of 'rdma link', or give its address "
                            "as ?source=",
                            names, host, host);
    case ENETUNREACH:
        return okv_diag_set(&c->diag, OKV_EADDRESS,
                            "this machine has no route to %s: check 'ip route get %s'", host, host);
    default:
        return okv_diag_set(&c->diag, OKV_EADDRESS, "%s cannot be reached by RDMA: %s", host,
                            strerror(errnum));
    }
}

static int diagnose_rejection(struct verbs_connecting *c, const struct rdma_cm_event *event)
{
    const struct okv_uri *uri = &c->uri;
    const struct rdma_conn_param *param = &event->param.conn;
    switch (event->status) {
    case REJECT_BY_CONSUMER:
        c->answer.rejected = true;
        c->answer.length = OKV_REJECT_MAX;
        if (param->private_data)
            memcpy(c->answer.bytes, param->private_data,
                   param->private_data_len < OKV_REJECT_MAX ? param->private_data_len
                                                            : OKV_REJECT_MAX);
        return okv_diag_set(&c->diag, OKV_EREFUSED, "the server at %s:%s refused the connection",
                            uri->host, uri->port);
    case REJECT_NO_LISTENER:
    case ECONNREFUSED:
    case -ECONNREFUSED:
        return okv_diag_set(&c->diag, OKV_EREFUSED,
                            "no server listens at %s:%s: start okv-server there with --listen "
                            "rdma://%s:%s, or check the port",
                            uri->host, uri->port, uri->host, uri->port);
    case REJECT_STALE:
        c->attempt.again = c->attempt.is_stale = true;
        return okv_diag_set(&c->diag, OKV_EREFUSED,
                            "%s:%s still holds an earlier connection of this machine: try again",
                            uri->host, uri->port);
    case REJECT_NO_RESOURCES:
        return okv_diag_set(&c->diag, OKV_EREFUSED,
                            "%s:%s has no resources for another connection: try again later",
                            uri->host, uri->port);
    default:
        return okv_diag_set(&c->diag, OKV_EREFUSED,
                            "%s:%s refused the connection (RDMA CM reason %d): see "
                            "rdma_reject_status in the kernel's ib_cm.h",
                            uri->host, uri->port, event->status);
    }
}

int okv_verbs_diagnose_loss(struct verbs_connecting *c, int errnum)
{
    c->attempt.again = true;
    return okv_diag_set(&c->diag, OKV_EREFUSED,
                        "the connection to %s:%s was lost while it was being made: %s", c->uri.host,
                        c->uri.port, errnum ? strerror(errnum) : "the server ended it");
}

int okv_verbs_diagnose_event(struct verbs_connecting *c, const struct rdma_cm_event *event)
{
    int errnum = event->status < 0 ? -event->status : event->status;
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        return okv_verbs_diagnose_route(c, errnum);
    case RDMA_CM_EVENT_UNREACHABLE:
        c->attempt.again = true;
        return okv_verbs_diagnose_silence(c);
    case RDMA_CM_EVENT_REJECTED:
        return diagnose_rejection(c, event);
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DISCONNECTED:
        return okv_verbs_diagnose_loss(c, errnum);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return okv_diag_set(&c->diag, OKV_ENODEVICE,
                            "the RDMA device that leads to %s:%s was removed", c->uri.host,
                            c->uri.port);
    default:
        return okv_diag_set(&c->diag, OKV_EIO, "the connection to %s:%s failed while %s: %s (%d)",
                            c->uri.host, c->uri.port, DOING[c->attempt.step],
                            rdma_event_str(event->event), event->status);
    }
}
