/*
 * Where a RESP client counts. One that the server serves has a place (admission.h). Before that,
 * until its TLS handshake is over and, with users, until it has logged in, it is silent: it is one
 * of at most --max-silent clients of all RESP listeners. One more of them ends the oldest one from
 * the address with most. An address with wrong passwords counts for more than its clients for a
 * while. Any thread that owns the client may call.
 */
#ifndef OKV_SERVER_RESP_RUN_PLACE_H
#define OKV_SERVER_RESP_RUN_PLACE_H

#include <pthread.h>

#include "server/resp/run/client.h"
#include "shared/base/crowd.h"

/* Refusals, in points, after which a client that guesses ends. */
#define OKV_RESP_REFUSALS_MAX 64u
#define OKV_RESP_REFUSED_PASSWORD 16u /* points of a wrong password */
#define OKV_RESP_REFUSED_COMMAND 1u   /* of a command before the log-in */

struct okv_resp_silent;

/* The silent clients of all workers. */
struct okv_resp_door {
    pthread_mutex_t lock;
    struct okv_crowd crowd;
    unsigned leaving; /* clients that were ended and have a descriptor still */
};

void okv_resp_door_init(struct okv_resp_door *door);
/* No client is left. */
void okv_resp_door_fini(struct okv_resp_door *door);

/* A client that came, or has logged out, gives up its place and is silent. False: there is no
 * memory, or too many are leaving; it is to be closed. */
bool okv_resp_place_wait(struct okv_server *server, struct okv_resp_client *client);
/* Gives the client, with its user and address, a place instead of the one that it has. Returns 0,
 * or a reason to reject, which is counted: it has none then. */
int okv_resp_place_take(struct okv_server *server, struct okv_resp_client *client);
/* The client ends. Its descriptor is open still. */
void okv_resp_place_leave(struct okv_server *server, struct okv_resp_client *client);

/* The client was refused something. When it has been refused too much it drains, and from its end
 * its address pays. */
void okv_resp_place_refused(struct okv_resp_client *client, unsigned points);

#endif
