#include "tests/support/connect_blocking.h"

#include <poll.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"

int connect_blocking(const struct okv_transport_ops *ops, const struct okv_uri *uri,
                     const struct okv_connect_params *params, struct okv_answer *welcome,
                     struct okv_conn **out, struct okv_diag *diag)
{
    struct okv_connecting *connecting;
    int rc;

    memset(welcome, 0, sizeof *welcome);
    rc = ops->connect_start(uri, params, &connecting, diag);
    if (rc)
        return rc;
    while ((rc = ops->connect_step(connecting, welcome, out, diag)) == OKV_EAGAIN) {
        struct pollfd fd = {.fd = connecting->fd, .events = POLLIN};
        poll(&fd, 1, okv_clock_ms_until(connecting->wake_ns));
    }
    return rc;
}
