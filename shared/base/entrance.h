/*
 * A listening socket, from which clients are accepted. A client that waits keeps such a socket
 * readable, also while there is no descriptor or memory for it. The entrance then rests for a
 * moment: clients wait in the queue of the kernel, and the thread that accepts them does not spin.
 * One thread calls.
 */
#ifndef OKV_SHARED_BASE_ENTRANCE_H
#define OKV_SHARED_BASE_ENTRANCE_H

#include <stdbool.h>
#include <sys/socket.h>

struct okv_diag;

struct okv_entrance {
    int fd; /* readable when okv_entrance_accept() has something to do */
    int sock, timer;
    bool is_resting;
    int short_of; /* why it rests, an errno; 0 again once it has accepted somebody */
    int news;     /* of okv_entrance_news() */
};

/* `sock` is non-blocking, and the caller's. Returns 0 or an errno. */
int okv_entrance_open(struct okv_entrance *entrance, int sock);
/* Why a listener did not open: sets the message for an errno, and returns its error. */
int okv_entrance_explain(struct okv_diag *diag, int errnum);
/* The socket is open still. */
void okv_entrance_close(struct okv_entrance *entrance);
/* Returns the non-blocking socket of a client, its address as from accept(2), or -1: nobody can
 * come now. */
int okv_entrance_accept(struct okv_entrance *entrance, struct sockaddr *address, socklen_t *length);
/* The errno of a shortage that began since the last call; 0: none did. */
int okv_entrance_news(struct okv_entrance *entrance);

#endif
