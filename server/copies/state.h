/* The state of a server's copies. For the files of server/copies/, on their thread. */
#ifndef OKV_SERVER_COPIES_STATE_H
#define OKV_SERVER_COPIES_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "server/cluster/members.h"
#include "server/cluster/protocol.h"
#include "server/copies/copies.h"
#include "server/copies/documents.h"
#include "shared/base/clock.h"

/* Servers of a cluster that are known at a time. */
#define OKV_SERVERS_MAX 64
/* Bytes of a key in etcd, with its NUL. */
#define OKV_COPIES_KEY_SIZE 192
/* The longest wait for an answer of etcd. */
#define OKV_COPIES_ETCD_MS 2000
/* And where nobody waits to be served: etcd may first compare a password, which takes it long. */
#define OKV_COPIES_ETCD_LONG_MS 8000
/* An answer of etcd that is older says nothing. */
#define OKV_COPIES_ETCD_FRESH_US 5000000
/* Bytes of frames in one request. One frame that is longer comes in several. */
#define OKV_COPIES_SHIP_BYTES (UINT32_C(4) << 20)

/* Results of orders that are kept. */
#define OKV_COPIES_RESULTS 16

struct okv_copy;
struct okv_database;
struct okv_etcd;
struct okv_link;
struct okv_peer_inbox;
struct okv_peer_mail;
struct okv_peer_sender;
struct okv_store_work;
struct okv_user_key;
struct pollfd;

STAILQ_HEAD(okv_copy_mails, okv_peer_mail);

/* An order of an administrator. */
struct okv_copies_order {
    STAILQ_ENTRY(okv_copies_order) next;
    uint64_t number;
    char text[OKV_COPIES_ORDER_SIZE];
};

struct okv_copies_result {
    uint64_t number; /* 0: none yet */
    char text[OKV_COPIES_RESULT_SIZE];
};

/* A snapshot on its way to a copy. */
struct okv_copy_sending {
    bool is_active;
    bool is_whole;      /* the last piece was sent */
    uint64_t id;        /* when the JOIN was sent that it answers */
    uint64_t begin;     /* the position at which the log of the copy begins; 0: not known yet */
    uint64_t epoch;     /* of the frame before */
    uint64_t position;  /* of the walk over the items; 0: at its beginning or its end */
    unsigned under_way; /* pieces that are not loaded */
};

/* What is left of a message that takes several requests. */
struct okv_copy_rest {
    struct okv_peer_message message;
    uint8_t *bytes; /* [used], of which those before `at` are sent; NULL: nothing is left */
    size_t used, at;
};

/* A connection to the copy of another server, while this one leads. */
struct okv_copy_link {
    struct okv_copy *copy;
    uint64_t server;       /* 0: unused */
    struct okv_link *link; /* NULL: to be opened at `again_us` */
    struct okv_uri uri;
    int fd; /* this and the next one: what the link waits for, as struct okv_link_wait */
    uint64_t wake_ns;
    bool is_open, is_lost;
    bool has_failed; /* and was logged */
    struct okv_copy_sending sending;
    struct okv_copy_rest rest;
    bool is_refused; /* until it is corrected by an administrator */
    uint64_t again_us, until_us;
};

/* A snapshot that comes. */
struct okv_copy_loading {
    uint64_t id;                /* as in struct okv_copy_sending */
    unsigned answered;          /* pieces */
    uint64_t whole;             /* what was published when the last one was sent */
    struct okv_copy_mails list; /* of pieces that are not loaded */
};

/* Mail of a primary. */
struct okv_copy_mail {
    struct okv_copy_mails list;           /* that is not answered yet, in order */
    struct okv_peer_mail *taken;          /* and that is being taken in; NULL: none */
    uint64_t taken_us;                    /* when that was sent */
    const uint8_t *frames;                /* of a SHIP that is being taken in */
    size_t frames_length;                 /* bytes */
    const struct okv_peer_sender *joined; /* whose JOIN came last; NULL: it has closed */
    uint8_t *bytes; /* [size]: of a message in several requests so far, `used` bytes */
    size_t used, size;
    uint64_t rest; /* bytes that are still to come; 0: none */
};

/* A server that is to have a copy, and when it was seen last. */
struct okv_copy_absence {
    uint64_t server, since_us;
};

/* What is counted since the start, and the protocol as it was looked at last. */
struct okv_elections {
    uint64_t suspected, took_over, deposed;
    enum okv_protocol_role role;
    uint64_t epoch, primary;
    uint64_t predecessor; /* the primary before this one's last epoch */
    bool is_suspecting;
};

/* How late the thread was at most, in this window and in the one before. */
struct okv_lateness {
    uint64_t began_us;
    uint64_t now_us, before_us;
};

/* A database. */
struct okv_copy {
    struct okv_copies *copies;
    struct okv_database *database;
    char key[OKV_COPIES_KEY_SIZE]; /* of its shard */
    bool has_begun;                /* the protocol is there, and the log runs */
    struct okv_protocol protocol;
    struct okv_elections elections;
    uint64_t gave_way; /* the epoch that it handed over as a listener is closed; 0: none */
    uint64_t incarnation;
    struct okv_copy_link links[OKV_COPIES_MAX];
    struct okv_store_work *work; /* to read items */
    struct okv_copy_mail mail;
    struct okv_copy_loading loading;
    uint64_t joined_us; /* when the JOIN was sent that came last */
    uint64_t needed;    /* frames from here on are kept for copies that load */
    bool is_leading, is_draining, is_loading, is_placing;
    bool is_given_up;      /* the log; a snapshot may take its place */
    bool is_stuck;         /* its disk does not answer */
    unsigned told_in_sync; /* copies, as it was logged last; 0: by no primary */
    bool has_told_mark;    /* that its directory cannot be marked */
    bool is_shown;         /* what the protocol says of this copy, to clients */
    uint64_t anew_at_us;   /* when it loads all anew; 0: not planned */
    unsigned times_anew;   /* that it did */
    bool has_told_refusal; /* that the primary has other options or users */
    struct okv_copy_absence absent[OKV_COPIES_MAX]; /* as key.wanted */
    uint64_t lost_request;                          /* of etcd, that could not be made; 0: none */
    uint64_t served;   /* the epoch that clients may connect in; 0: none */
    uint64_t prepared; /* the epoch for which the reply caches were made */
    struct {
        uint64_t begin, sealed, durable, applied;
        bool is_full;
    } told; /* to the protocol, of the log */
};

/* What is known of another server. */
struct okv_known_server {
    struct okv_server_document of;
    uint64_t mod_revision;
};

struct okv_copies {
    struct okv_server *server;
    /* okv_copy_step(), for what it calls. */
    void (*step)(struct okv_copy *copy, const struct okv_protocol_event *event);
    struct okv_etcd *etcd;
    const struct okv_user_key *key; /* of the peer user; NULL: none */
    struct okv_peer_inbox *inbox;
    pthread_t thread;
    bool is_started;
    atomic_bool has_to_stop, has_to_leave;
    atomic_uint led;  /* databases that this server leads and others could */
    int log_fd;       /* an eventfd: a log has changed, or there is an order */
    uint64_t busy_ns; /* when something came last */
    uint64_t etcd_ns; /* when etcd is looked at again, whatever comes */
    struct okv_lateness lateness;

    uint64_t id, boot;    /* of this server */
    uint64_t client_id;   /* of its links */
    uint64_t options;     /* digest of what all copies have in common */
    uint64_t random;      /* for nonces */
    uint64_t creation_id; /* of a cluster that this server creates, however often it is told to */
    struct okv_server_document self;

    bool has_cluster, has_begun;
    struct okv_cluster_document cluster;
    uint64_t cluster_revision; /* of its key */
    unsigned server_count;
    struct okv_known_server servers[OKV_SERVERS_MAX];
    struct okv_copy of[OKV_DATABASES_MAX]; /* [server->database_count] */

    bool is_reading, must_read; /* all keys of the cluster */
    bool has_read;
    int told_etcd; /* the status of the last get that failed, before the first one that did not */
    uint64_t read_at_us;
    uint64_t lease; /* etcd's, of this server's key; 0: none */
    bool is_renewing;
    uint64_t asked_us;    /* when etcd was to renew it last */
    uint64_t answered_us; /* when it did so last */
    uint64_t etcd_us;     /* how long that took */
    uint64_t renew_at_us;
    uint64_t report_at_us;
    int etcd_status; /* as it was logged last */

    struct okv_protocol_actions actions;
    uint8_t *ship; /* [ship_size]: frames on their way to a link */
    size_t ship_size;

    pthread_mutex_t lock; /* of what follows, which other threads use */
    STAILQ_HEAD(, okv_copies_order) orders;
    unsigned order_count;
    uint64_t ordered;                                        /* number of the last order */
    struct okv_copies_result results[OKV_COPIES_RESULTS];    /* by number */
    struct okv_server_document primaries[OKV_DATABASES_MAX]; /* of zeros: not known */
    char *report;                                            /* a JSON text, or NULL */
};

/* Without etcd a hand-over would leave nobody to lead. Its answers are known every 3 s. */
static inline bool okv_copies_have_etcd(const struct okv_copies *copies)
{
    return okv_clock_lease_us() - copies->answered_us < OKV_COPIES_ETCD_FRESH_US;
}

/* Another member of the set, which may take over; 0: there is none. The one that led before comes
 * last: it may have handed over for a reason that still holds. */
static inline uint64_t okv_copy_successor(const struct okv_copy *copy)
{
    const struct okv_shard_key *key = &copy->protocol.key;
    uint64_t chosen = 0;

    for (unsigned i = 0; i < key->isr_count; i++) {
        bool is_better = chosen == 0 || chosen == copy->elections.predecessor;
        if (is_better && okv_members_have(&copy->protocol, key->isr[i].server))
            chosen = key->isr[i].server;
    }
    return chosen;
}

static inline void okv_copy_tell(struct okv_copy *copy, const struct okv_protocol_event *event)
{
    copy->copies->step(copy, event);
}

#endif
