/* How a client connects to the stub: in steps, with challenges, or not at all. */
#ifndef OKV_TESTS_STUB_CONNECT_H
#define OKV_TESTS_STUB_CONNECT_H

#include "shared/transport/transport.h"

int stub_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                       struct okv_connecting **out, struct okv_diag *diag);
int stub_connect_step(struct okv_connecting *connecting, struct okv_answer *welcome,
                      struct okv_conn **out, struct okv_diag *diag);
void stub_connect_cancel(struct okv_connecting *connecting);

/* Of the transport: the connection, when its connect ends. */
int stub_connect(struct okv_answer *welcome, struct okv_conn **out);

#endif
