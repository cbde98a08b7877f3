/* Sockets of peers, by their URIs. */
#ifndef OKV_BENCH_TARGETS_PEER_CONNECT_H
#define OKV_BENCH_TARGETS_PEER_CONNECT_H

#include <stdbool.h>
#include <stddef.h>

struct peer_address {
    const char *scheme; /* "redis" */
    const char *server; /* for a hint to start it */
    const char *port;   /* when the URI has none */
};

/*
 * Connects to SCHEME://HOST[:PORT] (TCP_NODELAY) or SCHEME:///PATH, for as long as okv_open() would
 * try. Returns a nonblocking descriptor, with a readable name in `path`; or an OKV_E code with a
 * sentence in `why`.
 */
int peer_connect(const struct peer_address *address, const char *uri, bool *is_unix, char *path,
                 size_t path_size, char *why, size_t why_size);

/* Splits HOST[:PORT] in place; HOST may be [IPV6]. Without a port *port stays. Returns 0 or
 * OKV_EURI. */
int peer_split_host(char *text, const char **host, const char **port);

#endif
