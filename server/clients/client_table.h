/*
 * All clients of a server, whichever protocol they speak and whichever worker has them. A client is
 * in the table until its worker has closed it. Any thread may call.
 */
#ifndef OKV_SERVER_CLIENTS_CLIENT_TABLE_H
#define OKV_SERVER_CLIENTS_CLIENT_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "shared/base/uri.h"
#include "shared/format/report.h"
#include "shared/identity/user_key.h"

struct okv_server;

enum okv_client_kind { OKV_CLIENT_NATIVE, OKV_CLIENT_RESP };

/* In the ids of RESP clients; those of sessions lack it. */
#define OKV_CLIENT_RESP_ID (UINT64_C(1) << 63)

/* What a client has added to the sums of its database by reports of its gets. Its worker writes;
 * any thread reads. */
struct okv_report_share {
    bool is_due; /* the client offered to report */
#define OKV_REPORT_FIELD(name) atomic_uint_fast64_t name;
    OKV_REPORT_LIST(OKV_REPORT_FIELD)
    OKV_REPORT_FIELD(get_ns)
#undef OKV_REPORT_FIELD
    uint64_t timed; /* gets in the histogram; its worker's alone */
};

/* The first member of a session and of a RESP client. */
struct okv_client {
    uint64_t id;
    enum okv_client_kind kind;
    unsigned worker, database;                 /* indices */
    char user[OKV_NAME_SIZE];                  /* "": none */
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE]; /* of the user's key */
    char peer[64];                             /* its address, as text */
    const char *transport, *how;               /* of its listener */
    uint64_t created_ns;                       /* okv_clock_ns() */
    uint32_t request_slots;                    /* 0: RESP has none */
    struct okv_report_share report;
    bool reports_hits;              /* the client offered to, and its database evicts */
    atomic_uint_fast64_t hits_over; /* that it reported beyond its allowance; its worker writes */
    /* The worker alone writes these. */
    atomic_uint_fast64_t requests; /* received */
    atomic_uint_fast64_t bytes_in, bytes_out;
    atomic_uint_fast64_t active_ns; /* when the last request came, as of the pass */
    atomic_bool is_killed;          /* an administrator had it closed */
    atomic_bool is_deposed;         /* its server does not lead any more */
    /* In a cluster: the epoch of its database when it came, and of a client of Redis
     * okv_server.role_changes and 1; 0: it stays when another server leads. */
    uint64_t epoch;
    bool is_watched; /* it is in the list of half-open clients */
    TAILQ_ENTRY(okv_client) in_table, in_half_open;
    /* Of okv_client_table_scan(), with the lock of the table. */
    struct okv_client *scanned;         /* the last one that it looked at; or NULL */
    LIST_HEAD(, okv_client) scanners;   /* those of which this is the last one */
    LIST_ENTRY(okv_client) in_scanners; /* of `scanned` */
};

TAILQ_HEAD(okv_client_list, okv_client);

struct okv_client_table {
    pthread_mutex_t lock;
    struct okv_client_list lists[OKV_CLIENT_RESP + 1]; /* by kind, sorted by id */
    struct okv_client_list half_open; /* sessions that are, or were when last looked at */
};

void okv_client_table_init(struct okv_client_table *table);
/* The table must be empty. */
void okv_client_table_fini(struct okv_client_table *table);
void okv_client_table_add(struct okv_client_table *table, struct okv_client *client,
                          bool is_half_open);
void okv_client_table_remove(struct okv_client_table *table, struct okv_client *client);

/* Clients that a call of okv_client_table_scan() looks at. */
#define OKV_CLIENTS_PER_SCAN 400u

/* Calls `of`, with the lock of the table, for the next clients of the scanner's kind in the order
 * of their ids. `goes_on`: those after the ones of its last call. Returns whether there are more.
 */
bool okv_client_table_scan(struct okv_client_table *table, struct okv_client *scanner, bool goes_on,
                           void (*of)(void *user, struct okv_client *client), void *user);

/* Takes a client from the list of half-open ones. The caller holds the lock. */
void okv_client_table_unwatch(struct okv_client_table *table, struct okv_client *client);

/* Writes a line for each client of the database whose id is above `after`, in the order of the ids,
 * as many of one kind as fit: docs/protocol-admin.md section 2.5. Returns the length. */
size_t okv_clients_list(struct okv_server *server, unsigned database, uint64_t after, char *out,
                        size_t size);
/* Asks the worker of a client of the database to close it. OKV_ENOTFOUND: there is none. */
int okv_clients_kill(struct okv_server *server, unsigned database, uint64_t id);

/* Has all clients of the database ended that came in another epoch, and those of Redis that came
 * before the last change of a role. Returns how many are still there. */
unsigned okv_clients_depose(struct okv_server *server, unsigned database, uint64_t epoch);

/* "PEER (user NAME)", or "PEER" for a user "", as lines of the log name a client. */
struct okv_client_who {
    char text[160];
};
struct okv_client_who okv_client_who(const char *peer, const char *user);

#endif
