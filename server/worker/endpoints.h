/* The endpoints of a worker, one of each listener, as the doors open and close (core/door.h). On
 * the worker's thread, unless it says otherwise. */
#ifndef OKV_SERVER_WORKER_ENDPOINTS_H
#define OKV_SERVER_WORKER_ENDPOINTS_H

#include "shared/base/diag.h"

struct okv_endpoint;
struct okv_worker;

/* Makes them, before the thread starts. The errors of endpoint_create(), with none made. */
int okv_endpoints_create(struct okv_worker *worker, struct okv_diag *diag);
/* Frees them; the thread has ended. */
void okv_endpoints_destroy(struct okv_worker *worker);
/* Takes over those of doors that have opened since the thread ended. */
void okv_endpoints_take(struct okv_worker *worker);
/* That of a listener, or NULL while its door is closed. Of a door that closes it ends the clients,
 * and destroys the endpoint after the last one. */
struct okv_endpoint *okv_endpoints_find(struct okv_worker *worker, unsigned listener);

#endif
