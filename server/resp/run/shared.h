/* What the RESP clients of all workers share. */
#ifndef OKV_SERVER_RESP_RUN_SHARED_H
#define OKV_SERVER_RESP_RUN_SHARED_H

#include "server/command/exclusive.h"
#include "server/resp/run/client.h"
#include "server/resp/run/place.h"
#include "shared/base/entrance.h"
#include "shared/transport/local/socket_path.h"

struct okv_resp_script_cache;

struct okv_resp_listener {
    int fd;
    struct okv_entrance entrance; /* of `fd` */
    bool has_tls;
    char where[160];               /* its URI, with the port that it has */
    struct okv_socket_path socket; /* of a Unix socket */
};

/* Counters of RESP clients, which only rise; or by how much they rise in a second. */
struct okv_resp_sample {
    uint64_t ns, commands, bytes_in, bytes_out;
};

struct okv_resp_shared {
    struct okv_exclusive exclusive; /* workers share it while they run commands */
    struct okv_resp_door door;
    struct okv_resp_script_cache *scripts;
    atomic_int_fast64_t memory;      /* bytes of buffers and transactions of all clients */
    struct okv_resp_rates {          /* rates.h */
        atomic_uint_fast64_t due_ns; /* of the next sample */
        pthread_mutex_t lock;
        struct okv_resp_sample before, last;
    } rates;
    const struct okv_resp_call_stats *call_stats[OKV_WORKERS_MAX];
    uint64_t began_ns, began_steps;    /* okv_clock_steps() at that time */
    uint64_t last_id;                  /* the acceptor's */
    struct okv_tls *tls;               /* of all listeners that have it; or NULL */
    struct okv_handshakes *handshakes; /* with `tls`, until no client comes any more */
    unsigned listener_count;
    struct okv_resp_listener listeners[OKV_RESP_LISTENERS_MAX];
};

#endif
