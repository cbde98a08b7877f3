/*
 * Replies in RESP2 and RESP3 (redis.io, "RESP protocol specification"). Types that RESP2
 * lacks are sent as Redis does: maps as arrays, doubles and verbatim strings as bulk strings.
 */
#ifndef OKV_SERVER_RESP_PROTO_REPLY_H
#define OKV_SERVER_RESP_PROTO_REPLY_H

#include "server/resp/proto/buffer.h"

/* Where replies go. */
struct okv_resp_reply {
    struct okv_resp_buffer *out;
    unsigned protocol; /* 2 or 3 */
};

void okv_resp_simple(const struct okv_resp_reply *to, const char *text);
/* The text begins with a code in capitals, as "ERR syntax error". CR and LF in it become spaces. */
__attribute__((format(printf, 2, 3))) void okv_resp_error(const struct okv_resp_reply *to,
                                                          const char *format, ...);
void okv_resp_integer(const struct okv_resp_reply *to, int64_t number);
void okv_resp_bulk(const struct okv_resp_reply *to, const void *bytes, size_t length);
/* The same without the bytes and the CR LF that follows them. */
void okv_resp_bulk_head(const struct okv_resp_reply *to, size_t length);
void okv_resp_text(const struct okv_resp_reply *to, const char *text);
/* Text for people: RESP3 has a type for that. */
void okv_resp_verbatim(const struct okv_resp_reply *to, const char *text, size_t length);
void okv_resp_null(const struct okv_resp_reply *to);
void okv_resp_null_array(const struct okv_resp_reply *to);
void okv_resp_array(const struct okv_resp_reply *to, size_t count);
void okv_resp_set(const struct okv_resp_reply *to, size_t count);
void okv_resp_map(const struct okv_resp_reply *to, size_t pairs);

#endif
