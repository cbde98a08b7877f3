/* How connections and endpoints end. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_CLOSING_H
#define OKV_SHARED_TRANSPORT_VERBS_CLOSING_H

#include "shared/transport/verbs/verbs.h"

void okv_verbs_conn_close(struct okv_conn *conn);
void okv_verbs_conn_destroy(struct okv_conn *conn);
/* Reports the READs and rendezvous reads of closing connections, then their end. Returns the number
 * of events. */
int okv_verbs_closing_finish(struct verbs_endpoint *endpoint, struct okv_event *events, int max);
void okv_verbs_endpoint_destroy(struct okv_endpoint *endpoint);

#endif
