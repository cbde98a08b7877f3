/* The URI that programs use when none is given. */
#ifndef OKV_SHARED_BASE_DEFAULT_URI_H
#define OKV_SHARED_BASE_DEFAULT_URI_H

#include <stdbool.h>
#include <stddef.h>

/* Room for a URI that these functions write, with its NUL. */
#define OKV_DEFAULT_URI_TEXT 256
/* Where the service of the package listens. */
#define OKV_SERVICE_SOCKET "/run/okv/okv.sock"

/*
 * Writes the URI of this user's well-known local socket: /run/okv.sock for root,
 * okv.sock in $XDG_RUNTIME_DIR or /tmp/okv-UID.sock for others. Always terminates
 * `out` when `size` is not 0.
 */
void okv_default_uri(char *out, size_t size);

/* The same for a client: falls back to OKV_SERVICE_SOCKET if only that exists. Returns whether the
 * socket exists. */
bool okv_default_uri_find(char *out, size_t size);

#endif
