/* Posts messages and READs. */
#ifndef OKV_SHARED_TRANSPORT_OFI_POST_H
#define OKV_SHARED_TRANSPORT_OFI_POST_H

#include "shared/transport/ofi/ofi.h"

uint8_t *okv_ofi_send_buffer(struct okv_conn *conn);
int okv_ofi_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate);
void okv_ofi_flush(struct okv_conn *conn);
int okv_ofi_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count);
int okv_ofi_heartbeat(struct okv_conn *conn);
/* Posts a READ of the region's first bytes, once. 0 when it has ended, OKV_EAGAIN to poll and call
 * again, OKV_EDISCONNECTED when it failed. */
int okv_ofi_first_read(struct ofi_conn *conn);
/* Posts what waits for room on any connection. */
void okv_ofi_retry_blocked(struct ofi_endpoint *endpoint);

#endif
