/*
 * What the listener's thread leaves for the endpoint's: connections that were accepted, which are
 * arrivals, and those that the connection manager reports as lost.
 */
#ifndef OKV_SHARED_TRANSPORT_VERBS_HANDOVER_H
#define OKV_SHARED_TRANSPORT_VERBS_HANDOVER_H

#include "shared/transport/verbs/verbs.h"

/* True for the CM events after which a connection is of no use. */
bool okv_verbs_is_gone_event(enum rdma_cm_event_type type);
/* The connection manager says that the connection is lost; for the listener's thread. */
void okv_verbs_handover_gone(struct verbs_conn *conn);
/* Admits the accepted connections, and begins to close the lost ones; for the endpoint's thread. */
void okv_verbs_handover_process(struct verbs_endpoint *endpoint);
/* Removes a connection from the lost ones; its id must be destroyed. */
void okv_verbs_handover_forget(struct verbs_conn *conn);

#endif
