/* How connections and endpoints end. */
#ifndef OKV_SHARED_TRANSPORT_OFI_CLOSING_H
#define OKV_SHARED_TRANSPORT_OFI_CLOSING_H

#include "shared/transport/ofi/ofi.h"

void okv_ofi_conn_close(struct okv_conn *conn);
void okv_ofi_conn_destroy(struct okv_conn *conn);
/* Reports the READs and rendezvous reads of closing connections, then their end. Returns the number
 * of events. */
int okv_ofi_closing_finish(struct ofi_endpoint *endpoint, struct okv_event *events, int max);
/* Frees the zombies without operations; all of them when the fabric's endpoint is closed. */
void okv_ofi_zombies_free(struct ofi_endpoint *endpoint, bool all);
void okv_ofi_endpoint_destroy(struct okv_endpoint *endpoint);

#endif
