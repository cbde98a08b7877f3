/* One connection: its memory, its peer, and how it begins to end. */
#ifndef OKV_SHARED_TRANSPORT_OFI_CONN_H
#define OKV_SHARED_TRANSPORT_OFI_CONN_H

#include "shared/transport/ofi/ofi.h"

/* A connection with a number and a key; its control connection is the caller's to set. Any thread.
 * OKV_EAGAIN: the endpoint is full. */
int okv_ofi_conn_new(struct ofi_endpoint *endpoint, struct ofi_conn **out, struct okv_diag *diag);
/* Frees one in no list, of which the provider has no operation. Any thread. */
void okv_ofi_conn_free(struct ofi_conn *conn);
/* Makes the number free for another connection. Any thread. */
void okv_ofi_conn_return_number(struct ofi_endpoint *endpoint, unsigned number);
/* Resolves the place of the peer's endpoint. OKV_EIO for one of another host. */
int okv_ofi_conn_find_peer(struct ofi_conn *conn, const struct ofi_place *place);
/* Fills in the place of our endpoint, for the peer. */
void okv_ofi_conn_tell_place(const struct ofi_conn *conn, struct ofi_place *place);
int okv_ofi_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey);
/* From now on it receives messages, and its control connection is watched. */
int okv_ofi_conn_admit(struct ofi_conn *conn);
/* Admits the accepted connections. */
void okv_ofi_arrivals_process(struct ofi_endpoint *endpoint);
/* Starts to end a connection, once; `status` is what OKV_EVENT_CLOSED will say. */
void okv_ofi_conn_fail(struct ofi_conn *conn, int status, const char *why);
/* The provider has no room for work of the connection: okv_ofi_retry_blocked() posts it. */
void okv_ofi_conn_block(struct ofi_conn *conn);

#endif
