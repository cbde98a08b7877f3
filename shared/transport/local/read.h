/* The client's READs. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_READ_H
#define OKV_SHARED_TRANSPORT_LOCAL_READ_H

#include "shared/transport/local/local.h"

int okv_local_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count);
bool okv_local_read_now(struct okv_conn *conn, const struct okv_read *read,
                        okv_used_bytes *used_bytes);
/* Reports up to `max` READs. */
int okv_local_report_reads(struct okv_local_conn *conn, struct okv_event *events, int max);

#endif
