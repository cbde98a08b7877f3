/* The URI that programs use when none is given. */
#ifndef OKV_SHARED_BASE_DEFAULT_URI_H
#define OKV_SHARED_BASE_DEFAULT_URI_H

#include <stddef.h>

/* Room for the URI that okv_default_uri() writes, with its NUL. */
#define OKV_DEFAULT_URI_TEXT 256

/*
 * Writes the URI of this user's well-known local socket: /run/okv.sock for root,
 * okv.sock in $XDG_RUNTIME_DIR or /tmp/okv-UID.sock for others. Always terminates
 * `out` when `size` is not 0.
 */
void okv_default_uri(char *out, size_t size);

#endif
