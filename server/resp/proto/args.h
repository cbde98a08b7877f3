/* Arguments of a request as words and numbers. */
#ifndef OKV_SERVER_RESP_PROTO_ARGS_H
#define OKV_SERVER_RESP_PROTO_ARGS_H

#include "server/resp/proto/parser.h"

/* Writes `text` in lower case, truncated to `size`. */
void okv_resp_lower(const char *text, char *out, size_t size);
/* Compares without regard to case. */
bool okv_resp_arg_is(const struct okv_resp_arg *arg, const char *word);
/* okv_number_parse() */
bool okv_resp_arg_integer(const struct okv_resp_arg *arg, int64_t *number);
/* A decimal number of fewer than 1,024 characters; NaN is refused. */
bool okv_resp_parse_float(const uint8_t *text, size_t length, long double *number);

#endif
