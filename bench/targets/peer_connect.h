/* Sockets of peers: what their URIs name. */
#ifndef OKV_BENCH_TARGETS_PEER_CONNECT_H
#define OKV_BENCH_TARGETS_PEER_CONNECT_H

#include <stdbool.h>
#include <stddef.h>

struct peer_place {
    const char *scheme; /* "redis" */
    const char *server; /* for the advice to start it */
    const char *port;   /* when the URI has none */
};

/*
 * Connects to SCHEME://HOST[:PORT] (TCP_NODELAY) or SCHEME:///PATH, for as long as
 * okv_open() would try. Returns a descriptor that does not block, with *is_unix and a name for
 * people in `path`; or an OKV_E code with a sentence in `why`.
 */
int peer_connect(const struct peer_place *place, const char *uri, bool *is_unix, char *path,
                 size_t path_size, char *why, size_t why_size);

/* Splits HOST[:PORT], where HOST may be [IPV6]; *port stays where there is none. Changes `text`.
 * Returns 0, or OKV_EURI. */
int peer_split_host(char *text, const char **host, const char **port);

#endif
