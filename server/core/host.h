/*
 * What administrators are told of this host: its RDMA ports (shared/devices/facts.h). Reading it
 * takes milliseconds, which no worker has: one asks for a reading, and the acceptor makes it.
 */
#ifndef OKV_SERVER_CORE_HOST_H
#define OKV_SERVER_CORE_HOST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ports of which it tells. */
#define OKV_HOST_PORTS 16

struct okv_server;

struct okv_host {
    atomic_uint_fast64_t asked; /* number of the last reading that somebody asked for */
    atomic_uint_fast64_t read;  /* of the last one that was made */
    pthread_mutex_t lock;       /* of what follows */
    size_t length;
    char *text; /* lines; NULL: none, or there was no memory */
};

void okv_host_init(struct okv_host *host);
void okv_host_fini(struct okv_host *host);

/* Asks for a reading that begins after this call, and returns its number. Any thread. */
uint64_t okv_host_ask(struct okv_server *server);
/* Makes the reading that was asked for. `root` precedes /sys. The acceptor's thread. */
void okv_host_read(struct okv_host *host, const char *root);
static inline bool okv_host_is_asked(struct okv_host *host)
{
    return atomic_load(&host->asked) != atomic_load(&host->read);
}
/* Copies the whole lines of that reading, or of a later one, that fit `out`, and returns their
 * length. OKV_EAGAIN: it is not made yet; OKV_ENOTFOUND: nobody asked for it. Any thread. */
int okv_host_tell(struct okv_host *host, uint64_t number, char *out, size_t size);

#endif
