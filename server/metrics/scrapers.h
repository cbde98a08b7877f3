/*
 * The connections of the HTTP server for metrics, where nobody says who it is. A request has a
 * moment, and when there are too many connections, the oldest one from the address with most of
 * them ends: slow ones keep nobody out. Only the thread of the HTTP server calls.
 */
#ifndef OKV_SERVER_METRICS_SCRAPERS_H
#define OKV_SERVER_METRICS_SCRAPERS_H

#include <microhttpd.h>
#include <stdint.h>

#include "server/core/limits.h"
#include "shared/base/crowd.h"

struct okv_scrapers {
    struct okv_crowd crowd;
};

void okv_scrapers_init(struct okv_scrapers *scrapers);
/* For MHD_OPTION_NOTIFY_CONNECTION, with the scrapers. */
void okv_scrapers_on_connection(void *scrapers, struct MHD_Connection *connection, void **context,
                                enum MHD_ConnectionNotificationCode code);
/* For MHD_OPTION_NOTIFY_COMPLETED: the time of the next request begins. */
void okv_scrapers_on_completed(void *scrapers, struct MHD_Connection *connection, void **state,
                               enum MHD_RequestTerminationCode code);
/* Ends connections whose request takes too long. Returns for how many ms nothing is to be done; -1:
 * for ever. */
int okv_scrapers_end_overdue(struct okv_scrapers *scrapers, uint64_t now_ns);

#endif
