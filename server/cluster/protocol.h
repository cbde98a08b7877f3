/*
 * The protocol between the copies of one shard: who is primary, what is published, and until when
 * clients may trust what they READ. One instance per shard and server.
 *
 * It is pure: no input or output, no clock, no memory of its own, no thread. Its caller, the
 * driver, passes in what happened, with the lease clock in us, and carries out the actions that
 * come back, in their order, each before the next event. Nothing that a peer sends is trusted to be
 * in a range or in order.
 *
 * The pattern is PacificA (Lin et al., MSR-TR-2008-25): a replicated log with a primary, and the
 * configuration in a service that only orders compare-and-swaps. READs are covered by leases (Gray
 * and Cheriton, SOSP 1989) that the copies grant to the primary; no lease of etcd counts. What
 * holds, with D the term of a lease and rho the bound for the rate of a lease clock:
 *
 *  1. An epoch has one primary: the sender of the transaction that began it, in the run in which it
 *     sent it. A start always takes another epoch, since it may have lost frames that it shipped.
 *  2. The required members are all that may become primary: the in-sync set that etcd may have. So
 *     while a change of the set is not known to be done it is the union of before and after, and a
 *     copy is required before the transaction that adds it.
 *  3. A position is published when all required members have acknowledged it. So every possible
 *     successor has what a reader saw, or a client was told.
 *  4. An acknowledgement of what was sent at s, on the primary's clock, grants until s + D. The
 *     valid-until that clients READ is at most the least grant of the required members. It does not
 *     fall during an epoch, and a copy is added only when its grant covers it.
 *  5. A copy that sends a transaction to become primary acknowledges nothing of the old epoch. It
 *     serves D (1 + 3 rho) after its last acknowledgement, by its own clock: by then every
 *     valid-until that rests on it has passed. Only RELEASED spares it the wait.
 *  6. A primary serves when the first frame of its epoch is published and applied, and so all
 *     before it.
 *  7. A copy joins an epoch by cutting its log to what it shares with the primary's. A cut never
 *     reaches what is published; a copy that cannot tell loads a snapshot, as a new incarnation.
 *  8. A READ counts if its server's clock is surely below the valid-until of an epoch, and the
 *     client knew that this epoch was served before it posted: what memory had before that may be
 *     older than what another primary published.
 *
 * A transaction whose answer is lost stays possible for as long as the key has the revision that it
 * compares with. It is repeated until the key says that it is done, or never will be.
 */
#ifndef OKV_SERVER_CLUSTER_PROTOCOL_H
#define OKV_SERVER_CLUSTER_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "server/cluster/epochs.h"
#include "server/cluster/key.h"

/* All in us, except rho. None is more than an hour. */
struct okv_protocol_options {
    uint64_t lease_us;   /* D */
    uint64_t beat_us;    /* h: between two messages to a copy */
    uint64_t silent_us;  /* T_r: a primary gives up a copy, less than D */
    uint64_t suspect_us; /* T_s: a copy gives up its primary; it waits if that is before item 5 */
    uint64_t short_us;   /* the lease before a hand-over */
    uint64_t short_beat_us; /* how often that one is renewed */
    uint64_t again_us;      /* before a removed copy is added again; doubles, to 4 times as much */
    uint64_t rho_ppm;
    uint64_t lag_max;    /* positions that may be published and not applied before a copy
                            acknowledges only what it has applied */
    unsigned copies_min; /* of the in-sync set; writes are refused below */
    bool acks_disk;      /* what is durable counts, else what is in memory */
    bool takes_over;     /* a copy becomes primary by suspicion, not only by RELEASED */
};

/* Of a start. The log is what the files have, or empty. */
struct okv_protocol_log {
    struct okv_epochs epochs;
    uint64_t begin, end; /* the first position that can be shipped, and the last */
    uint64_t published;  /* that much is surely committed, and applied */
};

/* ---- messages of peers ---- */

enum okv_peer_message_type {
    OKV_PEER_JOIN,   /* from the primary: cut your log, and follow */
    OKV_PEER_JOINED, /* its reply, also an acknowledgement */
    OKV_PEER_SHIP,   /* frames from `from` to `to` */
    OKV_PEER_BEAT,
    OKV_PEER_ACK,      /* the reply to SHIP and BEAT */
    OKV_PEER_RELEASED, /* to the successor: every valid-until has passed */
    OKV_PEER_PIECE,    /* of a snapshot: an affair of the drivers, which LOADED ends */
};

#define OKV_PEER_REFUSED 1u  /* the receiver, whose epoch is `epoch`, does not follow the sender */
#define OKV_PEER_SNAPSHOT 2u /* the copy has no log that could be continued; JOIN: it is not to */
#define OKV_PEER_LAST 8u     /* of a PIECE: no further one follows */
#define OKV_PEER_FULL 4u     /* its disk or its memory is full, or failed */
#define OKV_PEER_SPENT 16u   /* the copy asks for a snapshot in place of its log */
#define OKV_PEER_PART 32u    /* its log has not reached all that its snapshot has */

struct okv_peer_message {
    enum okv_peer_message_type type;
    uint32_t flags;
    uint64_t epoch;
    uint64_t sent_us;  /* on the primary's clock; a reply returns it */
    uint64_t from, to; /* positions; of an acknowledgement `to` is its position, of JOIN `from` is
                          where the primary's log begins, and `to` where it ends */
    uint64_t published;
    uint64_t incarnation;     /* of the copy that replies */
    uint64_t copy_us;         /* on the copy's clock: when it replied; of SHIP and BEAT that of the
                                 last reply that came, or 0 after the primary's lease */
    struct okv_epochs epochs; /* of JOIN */
};

/* ---- what happens ---- */

enum okv_protocol_event_type {
    OKV_EVENT_TIMER,
    OKV_EVENT_CONNECTED, /* as a primary to `server`: messages reach it in order until LOST */
    OKV_EVENT_LOST,
    OKV_EVENT_MESSAGE,   /* from `server` */
    OKV_EVENT_LOG,       /* `begin`, `sealed`, `durable`, `applied`, `is_full` are as now */
    OKV_EVENT_KEY,       /* the answer to READ_KEY: `key` has `revision` */
    OKV_EVENT_CHANGED,   /* CHANGE_KEY succeeded: the key has `revision` */
    OKV_EVENT_REFUSED,   /* CHANGE_KEY: the key had another revision */
    OKV_EVENT_UNKNOWN,   /* no answer to either, or none to trust */
    OKV_EVENT_FOREIGN,   /* the key is not there, or etcd is not the one that had it */
    OKV_EVENT_HINT,      /* the key may have changed */
    OKV_EVENT_HAND_OVER, /* the operator's command: `server` is to become primary */
    OKV_EVENT_DRAINED,   /* after DRAIN: all writes that were evaluated are sealed */
    OKV_EVENT_LOADED,  /* after LOAD: the log begins and ends at `sealed`, all applied, and some of
                          what is published up to `whole` */
    OKV_EVENT_WHOLE,   /* the log has reached `whole`, durably */
    OKV_EVENT_SPENT,   /* what the log has cannot be applied: the copy asks for a snapshot */
    OKV_EVENT_RECOVER, /* the operator's command: this copy is to lead with what it has */
};

struct okv_protocol_event {
    enum okv_protocol_event_type type;
    uint64_t server;
    uint64_t request; /* of KEY to FOREIGN: as in the action */
    struct okv_peer_message message;
    struct okv_shard_key key;
    uint64_t revision;
    uint64_t begin, sealed, durable, applied;
    uint64_t whole; /* 0: there is nothing beyond `sealed` */
    bool is_full;
};

/* ---- what is to be done ---- */

enum okv_protocol_action_type {
    OKV_ACTION_SEND,       /* `message` to `server`; a SHIP's frames are added */
    OKV_ACTION_READ_KEY,   /* linearizable; `request` numbers the answer */
    OKV_ACTION_CHANGE_KEY, /* to `key` if the revision is `revision` */
    OKV_ACTION_APPEND,     /* check the frames of the SHIP that is the event, append, and say LOG */
    OKV_ACTION_TRUNCATE,   /* the log to `position` */
    OKV_ACTION_PUBLISH,    /* up to `position`; a primary's answers may leave, a copy applies */
    OKV_ACTION_INCARNATION, /* durably, from now on: `position`; the log is of no more use */
    OKV_ACTION_LOAD,        /* a snapshot that `server` sends, in place of the log */
    OKV_ACTION_SNAPSHOT,    /* send one of what is published to `server` */
    OKV_ACTION_LEAD,   /* connect to all wanted; the first frame of `epoch` is to be sealed now.
                          `is_recovery`: with it all versions rise above those that are lost */
    OKV_ACTION_FOLLOW, /* drop what is not published, and end what waits for it; what was sent still
                          arrives */
    OKV_ACTION_DRAIN,  /* evaluate no write, seal what was evaluated, and say DRAINED */
    OKV_ACTION_STATUS, /* okv_protocol_status() has changed: the status block is to say so */
};

struct okv_protocol_action {
    enum okv_protocol_action_type type;
    uint64_t server;
    uint64_t request, revision, position, epoch;
    bool is_recovery;
    struct okv_peer_message message;
    struct okv_shard_key key;
};

#define OKV_ACTIONS_MAX 48

struct okv_protocol_actions {
    unsigned count;
    struct okv_protocol_action of[OKV_ACTIONS_MAX];
};

/* ---- the instance ---- */

enum okv_protocol_role {
    OKV_ROLE_COPY,      /* follows a primary, or waits for one */
    OKV_ROLE_CANDIDATE, /* its transaction to become primary may be under way */
    OKV_ROLE_PRIMARY,
};

struct okv_protocol_status {
    uint64_t valid_until_us; /* on this server's lease clock; 0: not a primary that serves */
    uint64_t epoch;
    enum okv_protocol_role role;
    bool is_changing; /* a transaction may be under way: set before it is sent */
    bool takes_writes;
    bool is_alarmed; /* etcd is not what it was: no change of roles until it is */
};

/* A server as the primary sees it. */
struct okv_peer {
    struct okv_member member; /* its incarnation as of JOINED */
    bool is_connected, is_joined, is_loading, is_part, is_full, is_spent;
    bool is_required;                 /* in spite of the in-sync set: it is about to be added */
    uint64_t join_at_us;              /* when JOIN may be sent; UINT64_MAX: it was */
    uint64_t join_sent_us;            /* replies to what was sent before do not count */
    uint64_t position;                /* acknowledged */
    uint64_t shipped;                 /* above `position` while frames are on their way */
    uint64_t shipped_us;              /* when they were sent, or a part of them was received */
    uint64_t grant_us;                /* until then it does not serve; 0: never granted */
    uint64_t heard_us;                /* when it was sent what it answered last */
    uint64_t moved_us;                /* when it last had all, or more than before */
    uint64_t copy_us;                 /* of its last reply */
    uint64_t not_before_us, again_us; /* when it may be added again */
    uint64_t added_us;                /* to the set, after that; 0: it was there */
};

enum okv_hand_over_phase { OKV_HAND_OVER_NONE, OKV_HAND_OVER_SHORT, OKV_HAND_OVER_DRAIN };

struct okv_protocol {
    struct okv_protocol_options options;
    struct okv_member self;
    struct okv_protocol_actions *out; /* of the event */
    enum okv_protocol_role role;
    uint64_t epoch; /* leads or follows it; the highest seen */
    struct okv_protocol_status status;

    /* The own log. */
    struct okv_epochs epochs;
    uint64_t begin, sealed, durable, applied, published;
    bool is_full, is_loading, is_spent;

    /* etcd: the last known value, the request under way, and the value that may become the next. */
    struct okv_shard_key key, proposed;
    uint64_t revision; /* 0: the key was never read */
    uint64_t request, retry_us, nonce;
    bool is_asking, is_proposing, must_read, is_alarmed;

    /* A copy. */
    uint64_t leader;        /* 0: none joined it in this epoch */
    uint64_t joined_us;     /* when the leader sent its last JOIN */
    uint64_t promised_us;   /* its last acknowledgement, or its start */
    uint64_t suspect_at_us; /* unless the primary is heard */
    uint64_t owed_us, owed; /* the SHIP to acknowledge: when it was sent, its end; 0: none */
    uint64_t released;      /* the epoch whose primary said RELEASED */
    uint64_t whole_at;      /* below it a snapshot has parts that the log lacks; 0: there is none */
    uint64_t told;          /* what the primary said last is published, whatever is here */
    uint64_t echoed_us;     /* all that was published before this moment of its own clock is below
                               `told`; 0: not known */
    uint64_t trusted_us;    /* until then clients may count what they READ of an earlier epoch */
    bool is_suspecting;     /* reads the key to become primary */
    uint64_t abdicated_us;  /* when its log took nothing more; 0: never */
    uint64_t recovered;     /* the epoch that it was told to begin with what it has; 0: none */

    /* A primary. */
    uint64_t first;       /* where its epoch begins */
    uint64_t serve_at_us; /* the end of the wait; 0: it is over */
    uint64_t beat_at_us;
    bool is_serving;
    struct okv_peer peers[OKV_COPIES_MAX];
    enum okv_hand_over_phase phase;
    uint64_t successor, phase_end_us;
    bool is_drained;
};

/* The start of a server. `epoch` is the highest that it has seen, `incarnation` that of the log,
 * `nonce` from chance: no other start has it. */
void okv_protocol_start(struct okv_protocol *protocol, const struct okv_protocol_options *options,
                        struct okv_member self, const struct okv_protocol_log *log, uint64_t epoch,
                        uint64_t nonce, uint64_t now_us, struct okv_protocol_actions *actions);
/* Takes in an event; `actions` receives what is to be done. Time does not run backwards. */
void okv_protocol_step(struct okv_protocol *protocol, const struct okv_protocol_event *event,
                       uint64_t now_us, struct okv_protocol_actions *actions);
/* After the action to send a SHIP: it went up to `position` only, where a frame ends. */
void okv_protocol_shipped(struct okv_protocol *protocol, uint64_t server, uint64_t position);
/* A part of them was received there. */
void okv_protocol_progressed(struct okv_protocol *protocol, uint64_t server, uint64_t now_us);
/* A server as the primary sees it; NULL: it is none. */
const struct okv_peer *okv_protocol_peer(const struct okv_protocol *protocol, uint64_t server);
/* When the next TIMER is due, at the latest. */
uint64_t okv_protocol_timer_us(const struct okv_protocol *protocol);
/* Whether an answer that rests on what is published, without a frame of its own, may leave: asked
 * after the evaluation. So for gets by message, and for refusals of batches without a record. */
bool okv_protocol_may_answer(const struct okv_protocol *protocol, uint64_t now_us);

#endif
