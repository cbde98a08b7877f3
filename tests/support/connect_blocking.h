/* A connect that waits for its steps, to the deadline of `params`. */
#ifndef OKV_TESTS_CONNECT_BLOCKING_H
#define OKV_TESTS_CONNECT_BLOCKING_H

#include "shared/transport/transport.h"

int connect_blocking(const struct okv_transport_ops *ops, const struct okv_uri *uri,
                     const struct okv_connect_params *params, struct okv_answer *welcome,
                     struct okv_conn **out, struct okv_diag *diag);

#endif
