/*
 * A connection to another server of the cluster, over which messages are sent to it: a client of
 * its listener that makes no READs. What they say is the caller's affair.
 *
 * One thread drives a link: it calls okv_link_run() whenever what that returned last has come. All
 * calls of struct okv_link_calls come from there; they may send, and must not close. After `lost`
 * the link does nothing more: it is closed, and another is opened when the caller likes.
 *
 * Messages arrive in the order in which they were sent, each once or, when the link is lost, not at
 * all from some message on. One whose answer is a code may not have arrived, unlike those after it.
 */
#ifndef OKV_SERVER_PEERS_LINK_H
#define OKV_SERVER_PEERS_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "shared/base/diag.h"
#include "shared/base/uri.h"
#include "shared/format/wire.h"
#include "shared/identity/user_key.h"

struct okv_link;

struct okv_link_calls {
    /* Messages may be sent. */
    void (*opened)(void *context);
    /* The answer to the message that was sent with `cookie`; status 0 or a code. The bytes are lent
     * until it returns. */
    void (*answered)(void *context, uint64_t cookie, int status, const uint8_t *bytes,
                     uint32_t length);
    /* The link could not be opened, or has ended; the last call. Messages without an answer may
     * have arrived. OKV_EDENIED, OKV_EUNSUPPORTED (that server is no member), OKV_ESHUTDOWN, and
     * what connect_step of transport.h returns. */
    void (*lost)(void *context, int status, const char *why);
};

struct okv_link_params {
    const struct okv_uri *uri;
    const char *database; /* name */
    /* From chance, of this process: a link with it replaces an earlier one to the same database. */
    uint64_t client_id;
    const char *user;               /* NULL: the server serves no users */
    const struct okv_user_key *key; /* likewise; borrowed until the link is closed */
    uint32_t messages_max;          /* without an answer at a time, to OKV_CREDITS_MAX */
    uint64_t timeout_ns;            /* to open it */
    const struct okv_link_calls *calls;
    void *context;
};

/* Begins to connect. To resolve the name of a host may block for a second. OKV_ENOMEM, and what
 * connect_start of transport.h returns. */
int okv_link_open(const struct okv_link_params *params, struct okv_link **out,
                  struct okv_diag *diag);
/* At any time; accepts NULL. */
void okv_link_close(struct okv_link *link);

/* What to wait for. */
struct okv_link_wait {
    int fd;           /* until it is readable; -1: none */
    uint64_t wake_ns; /* or this time, on okv_clock_ns(); UINT64_MAX: none */
};
/* Goes on as far as it can without blocking. */
struct okv_link_wait okv_link_run(struct okv_link *link);

/* Whether a message may be sent that is one of many, and leaves a place to a further one. */
bool okv_link_takes_parts(const struct okv_link *link);
/* Sends a message: a header of 1 to OKV_KEY_MAX bytes, and a body in parts, which are copied. A
 * body may be as long as the other server takes (inbox.h). OKV_EAGAIN: as many as possible have no
 * answer, or there is no buffer: after a run; OKV_EDISCONNECTED; OKV_EINVAL: a length; OKV_ENOMEM,
 * OKV_EPERM, OKV_EIO: the transport cannot lend the body. After an error nothing was sent. */
int okv_link_send(struct okv_link *link, unsigned opcode, const void *header,
                  uint32_t header_length, const struct iovec *body, int parts, uint64_t cookie);

#endif
