/*
 * The servers of peers as child processes, each on a Unix socket and on a port of 127.0.0.1, and
 * a server that answers as it is told.
 */
#ifndef OKV_TESTS_PEER_PROCESS_H
#define OKV_TESTS_PEER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct peer_process {
    pid_t pid;
    char directory[64]; /* of the socket */
    char socket_uri[160];
    char tcp_uri[64]; /* "" for a server on the socket alone */
};

/* Start one of Debian's packages. False when the program is missing, having said so. */
bool peer_process_redis(struct peer_process *process);
bool peer_process_memcached(struct peer_process *process, bool tcp);
/* SIGTERM; removes the directory. */
void peer_process_stop(struct peer_process *process);

/* A server on a socket that takes one connection, answers each message that comes with
 * the next of `answers` (NULL-terminated), and then closes it, or with `stays` says nothing more.
 */
void peer_process_play(struct peer_process *process, const char *scheme, const char *const *answers,
                       bool stays);

#endif
