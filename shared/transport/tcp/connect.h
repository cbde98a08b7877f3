/* The client's connect, step by step: operations of the transport. */
#ifndef OKV_SHARED_TRANSPORT_TCP_CONNECT_H
#define OKV_SHARED_TRANSPORT_TCP_CONNECT_H

#include "shared/transport/tcp/tcp.h"

int okv_tcp_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                          struct okv_connecting **out, struct okv_diag *diag);
int okv_tcp_connect_step(struct okv_connecting *connecting, struct okv_answer *answer,
                         struct okv_conn **out, struct okv_diag *diag);
void okv_tcp_connect_cancel(struct okv_connecting *connecting);
int okv_tcp_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);

#endif
