/*
 * What peers behind a stream of bytes share: the connection, and the operations under way, which
 * such a server answers in the order in which they were sent.
 *
 * A protocol writes a request for each command and takes the bytes that come back; what it
 * reads there is the server's, so it trusts no length and no name in it.
 *
 * Waiting looks for up to 0.1 ms, giving the processor up in between, before it sleeps: a client
 * that slept at once would charge the peer its own wake-up, and one that never gave way would keep
 * a server on the same processor from answering.
 */
#ifndef OKV_BENCH_TARGETS_PEER_H
#define OKV_BENCH_TARGETS_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/targets/target.h"

/* One that was submitted and whose result was not polled yet. */
struct peer_operation {
    struct okv_result result;
    uint64_t since_ns; /* of okv_clock_ns() */
    void *buffer;      /* get */
    size_t buffer_size;
    uint32_t kind;
    bool ended;
};

struct peer;

/* What carries the bytes. None of these waits, but to connect. */
struct peer_wire {
    /* Sets fd and path. Returns 0, or an OKV_E code with a sentence in `why`. */
    int (*open)(struct peer *peer, const char *uri, char *why, size_t why_size);
    void (*close)(struct peer *peer);
    /* Sends what can be sent of the output. Returns 0, or what peer_fail() returned. */
    int (*send)(struct peer *peer);
    /* Gives what has come to decode(); *some is whether that was anything. Returns likewise. */
    int (*receive)(struct peer *peer, bool *some);
};

extern const struct peer_wire peer_socket; /* TCP, or a Unix socket */

struct peer_protocol {
    const char *scheme; /* "redis" */
    const char *server; /* whom to start when nobody listens: "redis-server" */
    const char *port;   /* when the URI has none */
    const struct peer_wire *wire;
    /* Writes a request with peer_write(). Returns 0, OKV_ENOMEM, or OKV_EUNSUPPORTED when this
     * server cannot do that: nothing was written then. */
    int (*encode)(struct peer *peer, const struct okv_command *command);
    /* Takes all of these bytes; ends operations with peer_waiting() and peer_end(). Returns 0, or
     * what peer_fail() returned. */
    int (*decode)(struct peer *peer, const char *bytes, size_t length);
};

/* Begins every target of this kind. */
struct peer {
    struct target target;
    const struct peer_protocol *protocol;
    int fd;     /* poll() finds it readable when something has come */
    void *line; /* its wire's own */
    bool is_unix;
    uint64_t timeout_ns;
    char path[256]; /* "10.0.0.1:6379", or the socket */

    char *output; /* what is to be sent: from output_sent to output_length */
    size_t output_sent;
    size_t output_length;
    size_t output_size;

    /* A ring of those that were submitted. Positions only rise: polled <= answered <= pushed. */
    struct peer_operation *ring;
    uint32_t ring_mask;
    uint32_t depth;
    uint32_t polled;   /* up to here the results were polled, */
    uint32_t answered; /* up to here they have their results */
    uint32_t pushed;

    int code; /* the target's failure, or OKV_OK */
    char why[320];
};

/* Connects; on failure nothing is left to be closed. */
int peer_open(struct peer *peer, const struct peer_protocol *protocol,
              const struct target_config *config, char *why, size_t why_size);
/* Closes and frees what peer_open made, not `peer` itself. */
void peer_fini(struct peer *peer);

/* For a protocol or a wire. */
int peer_write(struct peer *peer, const void *bytes, size_t length);
/* The operation that the next answer is about, or NULL. */
struct peer_operation *peer_waiting(struct peer *peer);
/* It has its result, with this status. */
void peer_end(struct peer *peer, struct peer_operation *operation, int status);
/* Copies a get's value to where it belongs; returns its status. */
int peer_deliver(struct peer_operation *operation, const char *value, size_t length);
/* The server ended the connection, or (errno) it failed. Returns what peer_fail() does. */
int peer_lose(struct peer *peer, int error);
/* The target is of no use any more; operations under way end. Returns `code`. */
int peer_fail(struct peer *peer, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Remembers what the server said when it refused one operation. */
void peer_note(struct peer *peer, const char *words, size_t length);

/* For opening and stat, when no operation is under way: sends what was written, as one operation
 * whose answer goes to buffer[0..size). Blocks. Returns its status; *length is the answer's. */
int peer_ask(struct peer *peer, const void *request, size_t request_length, char *buffer,
             size_t size, size_t *length);

/* Functions of struct target_ops. */
int peer_submit(struct target *target, const struct okv_command *commands, size_t count,
                size_t *accepted);
int peer_poll(struct target *target, struct okv_result *results, int max);
int peer_wait(struct target *target, int timeout_ms);
/* Gets that are under way together, as deep as the target goes. */
int peer_get_many(struct target *target, const struct okv_command *commands,
                  struct okv_result *results, size_t count);
const char *peer_why(struct target *target);

/* The number after "name" and `separator` at the beginning of a line of `text`; NAN: no such line.
 */
double peer_figure(const char *text, const char *name, char separator);

#endif
