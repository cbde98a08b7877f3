/* A member of etcd that answers as it is told, on a thread and a port of 127.0.0.1. */
#ifndef OKV_TESTS_ETCD_ACTOR_H
#define OKV_TESTS_ETCD_ACTOR_H

#include <pthread.h>
#include <stddef.h>

#define ETCD_ACTS 16
#define ETCD_CONNECTIONS 8
#define ETCD_REQUEST 4096

struct etcd_act {
    int status;       /* of HTTP; 0: the connection is closed instead */
    const char *body; /* NULL: it never comes */
};

struct etcd_connection {
    int fd;
    size_t length;
    char request[ETCD_REQUEST];
};

struct etcd_actor {
    char url[64];
    /* One for each request, then the last one again. */
    const struct etcd_act *acts;
    size_t act_count;
    /* The same for watches, whose answers go on; ends with NULL. */
    const char *const *streams;
    unsigned stream_count; /* of those that were begun */
    pthread_t thread;
    int listener;
    int stop[2];
    struct etcd_connection connections[ETCD_CONNECTIONS];
    unsigned count;
    _Atomic unsigned request_count;
    char requests[ETCD_ACTS][ETCD_REQUEST]; /* to be read when the actor has stopped */
};

/* Without acts it is silent. `streams` may be NULL. */
void etcd_actor_start(struct etcd_actor *actor, const struct etcd_act *acts, size_t count,
                      const char *const *streams);
void etcd_actor_stop(struct etcd_actor *actor);

#endif
