/* The socket of a server in the file system, of local:// and of resp:///PATH. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_SOCKET_PATH_H
#define OKV_SHARED_TRANSPORT_LOCAL_SOCKET_PATH_H

#include <sys/types.h>

#include "shared/base/diag.h"
#include "shared/base/uri.h"

struct okv_socket_path {
    const char *path; /* borrowed; NULL: there is none */
    dev_t device;     /* of our socket there */
    ino_t inode;
    int lock; /* flock on PATH.lock, held while listening */
};

/* Binds a new Unix socket to uri->path, gives it uri->mode, and has it listen. Removes the socket
 * of a server that has died, and nothing else: OKV_EAGAIN when another server listens there,
 * OKV_EADDRESS when something else is there; OKV_EPERM, OKV_ENOMEM, OKV_EIO. `uri` is borrowed
 * until okv_socket_path_remove(); the caller owns the socket. */
int okv_socket_path_listen(struct okv_socket_path *out, const struct okv_uri *uri, int sock,
                           int backlog, struct okv_diag *diag);
/* Removes our socket, if the path still leads to it. Does nothing without a path. */
void okv_socket_path_remove(struct okv_socket_path *socket);

#endif
