/*
 * Messages of other servers on their way from the workers, which receive them, to the one thread
 * that acts on them, and its answers on their way back. A server without an inbox is no member of a
 * cluster.
 *
 *   worker    okv_peer_mail_create -> the body comes -> okv_peer_inbox_add
 *             okv_peer_inbox_answered -> posts them -> okv_peer_mail_free
 *   thread    okv_peer_inbox_take -> okv_peer_inbox_answer
 *
 * Mail of one session comes in the order in which it was added. The last of a session that has
 * closed says so: it has opcode 0. Whatever is taken is to be answered, that too; an answer to a
 * session that has closed is dropped.
 *
 * What is not answered takes OKV_PEER_INBOX_BYTES and one body more.
 */
#ifndef OKV_SERVER_PEERS_INBOX_H
#define OKV_SERVER_PEERS_INBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/core/limits.h"
#include "shared/format/wire.h"

#define OKV_PEER_BODY_MAX (8u << 20)
#define OKV_PEER_INBOX_BYTES (UINT64_C(16) << 20)
#define OKV_PEER_REPLY_MAX 512u

struct okv_server;

struct okv_peer_mail {
    struct okv_peer_sender *from;
    unsigned opcode; /* of those between servers; 0: the session has closed */
    uint16_t slot;   /* this and the next: of the request */
    uint64_t sequence;
    uint32_t header_length, length;
    uint8_t header[OKV_KEY_MAX];
    uint8_t *body; /* [length] */
    int status;    /* this and the next ones: of the answer */
    uint32_t reply_length;
    uint8_t reply[OKV_PEER_REPLY_MAX];
    STAILQ_ENTRY(okv_peer_mail) next;
};

STAILQ_HEAD(okv_peer_mail_list, okv_peer_mail);

/* A session that has sent some. Its mail refers to it. */
struct okv_peer_sender {
    void *session;     /* the worker's; NULL: it has closed */
    uint64_t id;       /* of the session */
    unsigned database; /* index */
    unsigned worker;
    unsigned mail_count; /* under the lock: that is not freed, with `last` */
    struct okv_peer_mail last;
};

struct okv_peer_inbox {
    struct okv_server *server;
    int fd; /* readable when there is mail to take */
    pthread_mutex_t lock;
    uint64_t bytes; /* of what is not answered */
    struct okv_peer_mail_list mail;
    struct okv_peer_mail_list answered[OKV_WORKERS_MAX];
    atomic_bool has_answers[OKV_WORKERS_MAX];
};

/* OKV_ENOMEM; OKV_EIO: there is no descriptor. */
int okv_peer_inbox_create(struct okv_server *server, struct okv_peer_inbox **out);
/* Accepts NULL. The workers have ended, and all that was taken was answered. */
void okv_peer_inbox_destroy(struct okv_peer_inbox *inbox);

/* ---- a worker ---- */

/* NULL: there is no memory. */
struct okv_peer_sender *okv_peer_sender_create(void *session, uint64_t id, unsigned database,
                                               unsigned worker);
/* The session has closed: nothing more is created for it. */
void okv_peer_sender_close(struct okv_peer_inbox *inbox, struct okv_peer_sender *sender);

/* Makes mail of a request, with its header and room for its body. OKV_EVALUESIZE; OKV_EAGAIN: there
 * is too much mail; OKV_ENOMEM. */
int okv_peer_mail_create(struct okv_peer_inbox *inbox, struct okv_peer_sender *sender,
                         const struct okv_request_message *request, struct okv_peer_mail **out);
void okv_peer_inbox_add(struct okv_peer_inbox *inbox, struct okv_peer_mail *mail);
/* Appends the answers for this worker. Those for a session that has closed are among them. */
void okv_peer_inbox_answered(struct okv_peer_inbox *inbox, unsigned worker,
                             struct okv_peer_mail_list *out);
void okv_peer_mail_free(struct okv_peer_inbox *inbox, struct okv_peer_mail *mail);
void okv_peer_mail_free_all(struct okv_peer_inbox *inbox, struct okv_peer_mail_list *list);

/* ---- the thread ---- */

/* The next, or NULL, after which `fd` becomes readable with the next. */
struct okv_peer_mail *okv_peer_inbox_take(struct okv_peer_inbox *inbox);
/* Answers with `status` and up to OKV_PEER_REPLY_MAX bytes. The mail is no longer the caller's. */
void okv_peer_inbox_answer(struct okv_peer_inbox *inbox, struct okv_peer_mail *mail, int status,
                           const void *bytes, uint32_t length);

#endif
