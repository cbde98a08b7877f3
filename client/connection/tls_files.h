/* What a handle over tcps:// trusts, and what it shows. */
#ifndef OKV_CLIENT_CONNECTION_TLS_FILES_H
#define OKV_CLIENT_CONNECTION_TLS_FILES_H

#include "client/handle.h"

/* Completes the handle's URI, if it is of tcps://, by the options, then by the environment.
 * OKV_EINVAL: one is too long. */
int tls_files_choose(okv *handle, const struct okv_options *options);
/* The server's name is the URI's host if there is no other. */
void tls_server_name_choose(struct okv_uri *uri);

#endif
