/*
 * Peers that are reached by a byte stream: the connection, and the operations in flight. Such a
 * server answers requests in order.
 *
 * A protocol writes a request for each command and parses the bytes that come back. These are input
 * from the network: it trusts no length and no name in them.
 *
 * A wait polls for up to 0.1 ms, with yields in between, before it sleeps. To sleep at once would
 * charge the client's wake-up to the peer; never to yield would starve a server on the same
 * processor.
 */
#ifndef OKV_BENCH_TARGETS_PEER_H
#define OKV_BENCH_TARGETS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/targets/target.h"

/* An operation from its submission until its result is polled. */
struct peer_operation {
    struct okv_result result;
    uint64_t since_ns; /* of okv_clock_ns() */
    void *buffer;      /* get */
    size_t buffer_size;
    uint32_t kind;
    bool ended;
};

struct peer;

/* The carrier of the bytes. Only open() blocks. */
struct peer_wire {
    /* Sets fd and path. Returns 0, or an OKV_E code with a sentence in `why`. */
    int (*open)(struct peer *peer, const char *uri, char *why, size_t why_size);
    void (*close)(struct peer *peer);
    /* Sends as much output as possible. Returns 0, or the result of peer_fail(). */
    int (*send)(struct peer *peer);
    /* Passes received bytes to decode(); *some: there were any. Returns likewise. */
    int (*receive)(struct peer *peer, bool *some);
};

extern const struct peer_wire peer_socket; /* TCP, or a Unix socket */

struct peer_protocol {
    const char *scheme; /* "redis" */
    const char *server; /* the program to start: "redis-server" */
    const char *port;   /* when the URI has none */
    const struct peer_wire *wire;
    /* Writes a request with peer_write(). Returns 0, OKV_ENOMEM, or OKV_EUNSUPPORTED when this
     * server does not offer the command; nothing is written then. */
    int (*encode)(struct peer *peer, const struct okv_command *command);
    /* Parses all of these bytes; ends operations with peer_waiting() and peer_end(). Returns 0, or
     * the result of peer_fail(). */
    int (*decode)(struct peer *peer, const char *bytes, size_t length);
};

/* The first member of every target of this kind. */
struct peer {
    struct target target;
    const struct peer_protocol *protocol;
    int fd;     /* readable when bytes have come */
    void *line; /* state of the wire */
    bool is_unix;
    uint64_t timeout_ns;
    char path[256]; /* "10.0.0.1:6379", or the socket */

    char *output; /* unsent from output_sent to output_length */
    size_t output_sent;
    size_t output_length;
    size_t output_size;

    /* A ring of operations. Positions only rise: polled <= answered <= pushed. */
    struct peer_operation *ring;
    uint32_t ring_mask;
    uint32_t depth;
    uint32_t polled;   /* results before it were polled */
    uint32_t answered; /* operations before it have results */
    uint32_t pushed;

    int code; /* the target's failure, or OKV_OK */
    char why[320];
};

/* Connects; after a failure there is nothing to close. */
int peer_open(struct peer *peer, const struct peer_protocol *protocol,
              const struct target_config *config, char *why, size_t why_size);
/* Undoes peer_open(); does not free `peer` itself. */
void peer_fini(struct peer *peer);

/* ---- for protocols and wires ---- */

int peer_write(struct peer *peer, const void *bytes, size_t length);
/* The operation of the next answer, or NULL. */
struct peer_operation *peer_waiting(struct peer *peer);
/* Ends the operation with this status. */
void peer_end(struct peer *peer, struct peer_operation *operation, int status);
/* Copies a get's value to its buffer; returns its status. */
int peer_deliver(struct peer_operation *operation, const char *value, size_t length);
/* The server closed the connection, or it failed with this errno. Returns as peer_fail(). */
int peer_lose(struct peer *peer, int error);
/* The target is unusable: ends the operations under way. Returns `code`. */
int peer_fail(struct peer *peer, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Stores the server's error message about a refused operation. */
void peer_note(struct peer *peer, const char *words, size_t length);

/* Sends a request while no operation is under way, and waits: for open and stat. The answer goes to
 * buffer[0..size), its length to *length. Returns its status. */
int peer_ask(struct peer *peer, const void *request, size_t request_length, char *buffer,
             size_t size, size_t *length);

/* ---- for struct target_ops ---- */

int peer_submit(struct target *target, const struct okv_command *commands, size_t count,
                size_t *accepted);
int peer_poll(struct target *target, struct okv_result *results, int max);
int peer_wait(struct target *target, int timeout_ms);
/* A batch of gets, at the target's depth. */
int peer_get_many(struct target *target, const struct okv_command *commands,
                  struct okv_result *results, size_t count);
const char *peer_why(struct target *target);

/* The number after "name" and `separator` at the beginning of a line of `text`; NAN: no such line.
 */
double peer_figure(const char *text, const char *name, char separator);

#endif
