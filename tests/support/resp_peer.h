/*
 * A client of Redis for tests: a blocking Unix socket, requests as arrays, replies one by one.
 *
 * Requests are collected until resp_peer_flush(). A reply that is an array says how many replies
 * follow.
 */
#ifndef OKV_TESTS_RESP_PEER_H
#define OKV_TESTS_RESP_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resp_peer {
    int fd; /* -1: there is no connection */
    uint8_t *out, *in;
    size_t out_used, out_capacity;
    size_t in_used, in_at, in_capacity;
};

struct resp_word {
    const void *bytes;
    size_t length;
};
#define RESP_TEXT(text) ((struct resp_word){text, strlen(text)})

struct resp_answer {
    char type;         /* '+', '-', ':', '$' or '*' */
    int64_t number;    /* of ':'; bytes of '$' and elements of '*', -1: it is null */
    const char *bytes; /* of '+', '-' and '$', until the next call */
    size_t length;
};

/* Tries until the server listens at `path`, as long as the pace guard lets it. False: it does not.
 */
bool resp_peer_open(struct resp_peer *peer, const char *path);
void resp_peer_close(struct resp_peer *peer);
/* Adds a request. Fails the test without memory. */
void resp_peer_add(struct resp_peer *peer, const struct resp_word *words, unsigned count);
/* Sends all requests. False: the connection has ended. */
bool resp_peer_flush(struct resp_peer *peer);
/* Waits for a reply. False: the connection has ended, or it is no reply. */
bool resp_peer_read(struct resp_peer *peer, struct resp_answer *answer);
/* One request and its reply, which is no array. */
bool resp_peer_call(struct resp_peer *peer, const struct resp_word *words, unsigned count,
                    struct resp_answer *answer);

#endif
