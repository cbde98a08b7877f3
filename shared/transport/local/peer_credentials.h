/* Who is at the other end of a socket, and whether to trust it. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_PEER_CREDENTIALS_H
#define OKV_SHARED_TRANSPORT_LOCAL_PEER_CREDENTIALS_H

#include "shared/base/diag.h"
#include <stdbool.h>

/* Whether the process at the other end belonged to root or to this process's user when it
 * connected, or listened. Returns 0, or OKV_EIO or OKV_ENOMEM, with errno, when the system does not
 * tell. */
int okv_local_peer_is_trusted(int sock, bool *is_trusted);
/* Client: 0 when the server belongs to root or to this user, or when no directory is open to all in
 * which a name of the path, or of a link on the way, is looked up. OKV_EDENIED, OKV_EIO or
 * OKV_ENOMEM with a sentence. The path is absolute. */
int okv_local_peer_verify(int sock, const char *path, struct okv_diag *diag);
/* Names the process at the other end of a socket, for people, and its user, unless that is NULL. */
void okv_local_peer_name(int sock, char name[64], char user[64]);
/* A pidfd of the process that connected to our listening socket. -1 when the system tells none: the
 * process is in a namespace that we cannot see, or descriptors are short. OKV_EDISCONNECTED when
 * the process is gone. */
int okv_local_peer_process(int sock, int *out);

#endif
