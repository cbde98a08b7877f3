/*
 * A write that takes longer than a pass: a PUT whose value is too long for a message, an APPEND to
 * a long value, or a TOUCH of one in a durable database.
 *
 *   begin     a PUT makes the transport READ the client's advertised buffer into an extent
 *   arrived   the rendezvous read of a PUT has ended
 *   run       a slice of the copy and of the checksum; the last one applies the write
 *   answer    posts the reply when there is a send buffer (admit.c)
 *
 * Until the write is applied nothing refers to the extent, so no reader sees what a failed one left
 * in it. The write keeps its message until it ends.
 *
 * Extents of long writes under way take no more than a share of a database's memory
 * (server/command/reservation.h).
 */
#ifndef OKV_SERVER_SESSION_LONG_WRITE_H
#define OKV_SERVER_SESSION_LONG_WRITE_H

#include <stdint.h>
#include <sys/queue.h>

#include "server/command/long_transfer.h"
#include "server/core/turn.h"
#include "shared/format/wire.h"
#include "shared/transport/transport.h"

struct okv_executor;
struct okv_session;

/* Long writes of one session. */
#define OKV_LONG_WRITES_MAX OKV_RENDEZVOUS_MAX

enum okv_long_write_state {
    OKV_LONG_WRITE_NONE,
    OKV_LONG_WRITE_READING,    /* its rendezvous read is under way */
    OKV_LONG_WRITE_RUNNING,    /* it is long work (long_work.h) */
    OKV_LONG_WRITE_COMMITTING, /* it was applied, and its reply waits for the log */
    OKV_LONG_WRITE_ENDED
};

struct okv_long_write {
    enum okv_long_write_state state;
    struct okv_session *session;
    struct okv_event message;
    struct okv_request_message request; /* in the message */
    struct okv_long_transfer transfer;
    struct okv_effort effort;  /* to make room (store/room.h) */
    uint64_t batch;            /* of the log, if it is held */
    uint64_t exclusive_ticket; /* of okv_exclusive_share() */
    struct okv_reply_message reply;
    uint8_t reply_value[OKV_WRITE_REPLY_MAX];
    struct okv_long_write_list *list; /* of long work, that it is in */
    TAILQ_ENTRY(okv_long_write) in_list;
};

/*
 * Begins a PUT with OKV_REQUEST_RENDEZVOUS. On success it keeps the message, and one
 * OKV_EVENT_RENDEZVOUS_DONE of the session's connection follows.
 * OKV_EAGAIN: as many long writes are in use as there may be, or their share of the memory is: try
 * again. OKV_EDISCONNECTED: the connection has ended. Any other error is the answer to the request:
 * OKV_EVALUESIZE, OKV_EFULL, OKV_EDENIED, OKV_EUNSUPPORTED (device or client allow no rendezvous
 * read).
 */
int okv_long_write_begin_put(struct okv_session *session, const struct okv_executor *executor,
                             const struct okv_event *message,
                             const struct okv_request_message *request);
/* Begins an APPEND or a TOUCH, and keeps the message. The caller lets it run. NULL: as many
 * long writes are in use as there may be. */
struct okv_long_write *okv_long_write_begin_change(struct okv_session *session,
                                                   const struct okv_event *message,
                                                   const struct okv_request_message *request);

/* OKV_EVENT_RENDEZVOUS_DONE. The write runs now, or has ended because the read failed. */
struct okv_long_write *okv_long_write_arrived(struct okv_session *session,
                                              const struct okv_executor *executor,
                                              const struct okv_event *event);

/*
 * Goes on with a write for up to `most` bytes; returns the bytes done. The last slice applies the
 * write and stores its reply in the reply cache. 0 and still running: it is held up, by its share
 * of the memory or by another append to its value. Ends the write of a closing session. The caller
 * ends a replaced session before this.
 */
uint64_t okv_long_write_run(struct okv_long_write *write, const struct okv_executor *executor,
                            uint64_t most);
/* Ends a write that has not been applied. The reply cache forgets it; `status` is its answer. */
void okv_long_write_drop(struct okv_long_write *write, const struct okv_executor *executor,
                         int status);

/* A long write that ended and was not answered yet, or NULL. */
struct okv_long_write *okv_long_write_ended(struct okv_session *session);
/* The write was answered, or its reply waits for the log (reply.h). */
void okv_long_write_free(struct okv_long_write *write);

#endif
