/* A server in a thread of this process whose inbox is served by another thread: it answers each
 * message with its header, in order. And the link of a test to it. */
#ifndef OKV_TESTS_PEER_MEMBER_H
#define OKV_TESTS_PEER_MEMBER_H

#include <stdatomic.h>

#include "server/peers/inbox.h"
#include "server/peers/link.h"
#include "tests/support/server_thread.h"

/* The header of a message of these tests. */
struct peer_message {
    uint32_t number; /* of its session, from 0 */
    uint32_t length; /* of the body */
};
uint8_t peer_body_byte(const struct peer_message *message, uint32_t i);

struct peer_member {
    struct server_thread server;
    struct okv_peer_inbox *inbox; /* NULL: it is no member */
    pthread_t thread;
    atomic_bool holds; /* answers nothing for now */
    atomic_bool stops;
    atomic_uint taken, lost, wrong; /* messages; sessions; messages out of order or damaged */
};

/* Where servers listen, and where to connect: $OKV_TEST_LISTEN and $OKV_TEST_URI, else a socket. */
const char *peer_member_listen(void);
struct okv_uri peer_member_uri(void);
/* With the users of a file, or open. */
void peer_member_start(struct peer_member *member, const char *users, bool is_member);
void peer_member_stop(struct peer_member *member);

/* Drives a link, and checks that answers are right and in order. */
struct peer_dial {
    struct okv_link *link;
    bool is_open, is_lost;
    int status; /* why it is lost */
    char why[200];
    uint32_t sent, answered, wrong;
    int last_status; /* of the last answer */
};

/* Opens a link as a user, or as nobody with NULL; `text` is the key. Waits until the server is
 * there, and until the link is open or lost. */
void peer_dial_open(struct peer_dial *dial, const char *user, const char *text, uint64_t client_id);
/* One step of the link. */
void peer_dial_step(struct peer_dial *dial);
/* Sends a message with a body of this length; waits while it cannot. */
void peer_dial_send(struct peer_dial *dial, uint32_t length);
int peer_dial_try(struct peer_dial *dial, uint32_t length);
/* Until it is so; fails the test when it never is. */
void peer_dial_until_answered(struct peer_dial *dial, uint32_t count);
void peer_dial_until_lost(struct peer_dial *dial);
void peer_dial_until(struct peer_dial *dial, const atomic_uint *figure, unsigned value);
void peer_dial_close(struct peer_dial *dial);

#endif
