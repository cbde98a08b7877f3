/* What arguments of commands say. */
#ifndef OKV_SERVER_RESP_RUN_OPTIONS_H
#define OKV_SERVER_RESP_RUN_OPTIONS_H

#include "server/resp/run/call.h"

/* Writes `text` in small letters, as far as there is room. */
void okv_resp_lower(const char *text, char *out, size_t size);
/* In any case of letters. */
bool okv_resp_is(const struct okv_resp_arg *arg, const char *word);
/* A decimal integer of 64 bits as Redis writes it: no space, no '+', no zero in front. */
bool okv_resp_integer_of(const struct okv_resp_arg *arg, int64_t *number);
/* The same of any bytes. */
bool okv_resp_integer_parse(const uint8_t *text, size_t length, int64_t *number);
/* A decimal number, but not NaN. */
bool okv_resp_float_of(const uint8_t *text, size_t length, long double *number);
/* Replies with an error unless the argument is an integer. */
bool okv_resp_need_integer(struct okv_resp_call *call, uint32_t index, int64_t *number);

enum okv_resp_unit { OKV_RESP_S, OKV_RESP_MS };
/* Reads a moment, or an interval from now, to the moment on the wall's clock, in ms; the latest
 * that an item can expire at if it is later. Replies with an error if it does not fit 64 bits, and
 * with `must_be_positive` if the number is not above 0. */
bool okv_resp_need_time(struct okv_resp_call *call, uint32_t index, enum okv_resp_unit unit,
                        bool is_moment, bool must_be_positive, int64_t *wall_ms);

/* Options EX, PX, EXAT, PXAT. 1: the argument is one of them, *index is at its value, and *wall_ms
 * is set; 0: it is none; -1: an error was replied. */
int okv_resp_read_expiry(struct okv_resp_call *call, uint32_t *index, int64_t *wall_ms);

/* A database is named, or has the number that it has among the options of the server. -1: there is
 * none. */
int okv_resp_database_of(const struct okv_resp_call *call, const struct okv_resp_arg *arg);

/* Names the client. Replies with an error if it is no name. */
bool okv_resp_set_name(struct okv_resp_call *call, const struct okv_resp_arg *name);

int okv_resp_syntax_error(struct okv_resp_call *call);

/* Whether a pattern with *, ?, [a-z], [^a] and \ matches all of a text. */
bool okv_resp_matches(const uint8_t *pattern, size_t pattern_length, const uint8_t *text,
                      size_t length);

#endif
