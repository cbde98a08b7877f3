/* Pieces of a URI, for the files that parse one. */
#ifndef OKV_SHARED_BASE_URI_PART_H
#define OKV_SHARED_BASE_URI_PART_H

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/uri.h"

#define OKV_URI_RDMA_EXAMPLE "rdma://10.0.0.1:7471"
#define OKV_URI_OFI_EXAMPLE "ofi://10.0.0.1:7471"
#define OKV_URI_LOCAL_EXAMPLE "local:///run/okv.sock"
#define OKV_URI_DISCOVER_EXAMPLE "rdma://discover/cache"

/* A piece of the parsed text; not terminated. */
struct okv_uri_part {
    const char *text;
    size_t length;
};

/* Enough to recognise the input, and short enough to leave room for the advice. */
#define OKV_URI_SHOWN_MAX 80

/* How many bytes of a piece a sentence shows. */
static inline int okv_uri_shown(struct okv_uri_part part)
{
    return part.length > OKV_URI_SHOWN_MAX ? OKV_URI_SHOWN_MAX : (int)part.length;
}

static inline bool okv_uri_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool okv_uri_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The scheme in sentences about a URI with a host. */
const char *okv_uri_scheme_name(const struct okv_uri *uri);
/* True when `part` fits `size` bytes with its NUL and was copied to `out`. */
bool okv_uri_copy_part(struct okv_uri_part part, char *out, size_t size);
bool okv_uri_is_ipv4(const char *text);
/* An IPv6 address, perhaps with a zone: "fe80::1%eth0". */
bool okv_uri_is_ipv6(const char *text);

#endif
