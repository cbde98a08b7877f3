/* The options of a URI: key=value pairs, joined by '&'. */
#ifndef OKV_SHARED_BASE_URI_QUERY_H
#define OKV_SHARED_BASE_URI_QUERY_H

#include "shared/base/uri_part.h"

/* Adds the options in `query` to `out`, whose scheme, and path or name, are known. OKV_EURI with a
 * sentence: an option is wrong, twice there, or none of this scheme. */
int okv_uri_parse_query(struct okv_uri_part query, struct okv_uri *out, struct okv_diag *diag);

#endif
