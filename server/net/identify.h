/*
 * Who asks to connect: docs/protocol.md section 1.4. Only the acceptor's thread calls.
 */
#ifndef OKV_SERVER_NET_IDENTIFY_H
#define OKV_SERVER_NET_IDENTIFY_H

#include "server/identity/authority.h"
#include "server/net/handshake.h"
#include "shared/transport/transport.h"

struct okv_server;

/* A client whose hello was decoded, and what became of it. */
struct okv_arrival_identity {
    struct okv_identity of;          /* empty where the server serves everybody */
    uint8_t cookie[OKV_COOKIE_SIZE]; /* of the challenge: the one to send, or the one answered */
    unsigned rights;                 /* in the database that it asks for */
};

/* Returns 0, or a reason to reject of enum okv_reject_reason. */
int okv_identify(struct okv_server *server, const struct okv_request *request,
                 const struct okv_handshake_client *client, struct okv_arrival_identity *out);

/* Writes the server's proof into a welcome that is complete but for it. */
void okv_identify_prove(const struct okv_request *request,
                        const struct okv_arrival_identity *identity,
                        struct okv_wire_welcome *welcome);

/* Reads the users file again and changes the rights of all sessions accordingly. A file with a
 * mistake changes nothing. Logs what became of it, at the rate of the log when a client asked. */
void okv_identify_reload(struct okv_server *server, bool is_of_client);

#endif
