/* Interim: the steps of a transport whose connect has none. */
#ifndef OKV_SHARED_TRANSPORT_AT_ONCE_H
#define OKV_SHARED_TRANSPORT_AT_ONCE_H

#include <stdlib.h>

#include "shared/error.h"
#include "shared/transport.h"

struct at_once {
    struct okv_connecting base;
    struct okv_welcome welcome;
    struct okv_conn *conn;
    struct okv_diag diag;
    int rc;
};

static int at_once_start(const struct okv_transport_ops *ops, const struct okv_uri *uri,
                         const struct okv_connect_params *params, struct okv_connecting **out,
                         struct okv_diag *diag)
{
    struct at_once *c = calloc(1, sizeof *c);
    if (!c)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory to connect");
    c->base.ops = ops;
    c->base.fd = -1;
    c->rc = ops->connect(uri, params, &c->welcome, &c->conn, &c->diag);
    *out = &c->base;
    return 0;
}

static int at_once_step(struct okv_connecting *connecting, struct okv_welcome *welcome,
                        struct okv_conn **out, struct okv_diag *diag)
{
    struct at_once *c = (struct at_once *)connecting;
    int rc = c->rc;
    *welcome = c->welcome;
    *out = c->conn;
    if (diag)
        *diag = c->diag;
    free(c);
    return rc;
}

static void at_once_cancel(struct okv_connecting *connecting)
{
    struct at_once *c = (struct at_once *)connecting;
    if (c && c->rc == 0)
        c->conn->ops->conn_destroy(c->conn);
    free(c);
}

#endif
