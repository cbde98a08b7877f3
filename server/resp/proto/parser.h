/*
 * Requests of the Redis serialization protocol (redis.io, "RESP protocol specification"): arrays of
 * bulk strings, or lines of words. It knows no commands and no connections.
 *
 * A request may come in pieces. The parser continues where the bytes ended, so it reads each byte
 * once.
 */
#ifndef OKV_SERVER_RESP_PROTO_PARSER_H
#define OKV_SERVER_RESP_PROTO_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OKV_RESP_ARGS_MAX (1u << 20)
#define OKV_RESP_INLINE_MAX (64u << 10)   /* bytes of a line */
#define OKV_RESP_INLINE_ARGS_MAX 8192u    /* of a line, which is read in one step */
#define OKV_RESP_REQUEST_MAX (128u << 20) /* bytes of a request */
#define OKV_RESP_BULK_MAX                                                  \
    ((64u << 20) + 1024u) /* bytes of an argument: one more than any value \
                           */
/* Arguments that a call reads, or whose texts it sets: a request of many takes several calls. */
#define OKV_RESP_ARGS_PER_CALL 1024u
/* The same before a client has authenticated. */
#define OKV_RESP_UNAUTHENTICATED_ARGS_MAX 10u
#define OKV_RESP_UNAUTHENTICATED_BULK_MAX (16u << 10) /* also bytes of a line */

struct okv_resp_arg {
    const uint8_t *text;
    uint32_t length;
};

/* Starts as zeros. */
struct okv_resp_parser {
    struct okv_resp_arg *args; /* [capacity]; texts are set when the request is complete */
    uint32_t capacity;
    uint32_t count;  /* so far */
    uint32_t set;    /* of these, whose texts are set */
    uint32_t wanted; /* of the array; 0: its head is not read */
    uint32_t bulk;   /* size of the argument under way, if has_bulk */
    bool has_bulk;
    bool is_skipping;         /* the bytes of the argument under way are not here */
    bool has_skipped;         /* they are complete elsewhere, and its CR LF follows */
    uint32_t skipped;         /* index of that argument + 1; 0: there is none */
    const uint8_t *elsewhere; /* its bytes */
    bool is_kept;             /* the next call returns the same request */
    bool has_more;            /* the call ended after OKV_RESP_ARGS_PER_CALL */
    bool is_unauthenticated;  /* the lower limits hold */
    size_t position;          /* of the next byte to look at; of a complete request its length */
    size_t needed;            /* least size of an incomplete request */
    const char *problem;      /* with OKV_EPROTO: in the words of Redis */
    char text[40];            /* storage of `problem`, unless that is static */
};

void okv_resp_parser_fini(struct okv_resp_parser *parser);
/* The next request begins. */
void okv_resp_parser_reset(struct okv_resp_parser *parser);

/*
 * Continues with a request whose first `length` bytes are `bytes`. They may have moved since the
 * last call, and they may change: words of a line lose their quotes. Returns 1 with `count`
 * arguments, which point into `bytes`; there may be none. 0: the request is incomplete, or with
 * `has_more` the call is to be repeated. OKV_EPROTO: it breaks the protocol; OKV_ENOMEM.
 */
int okv_resp_parse(struct okv_resp_parser *parser, uint8_t *bytes, size_t length);
/* Whether the bytes of the request may not move any more, because it has many arguments whose texts
 * are set. */
bool okv_resp_parser_is_fixed(const struct okv_resp_parser *parser);
/* Makes the next call return the same request, which is complete in `bytes`: a line cannot be
 * parsed twice. */
void okv_resp_parser_keep(struct okv_resp_parser *parser, const uint8_t *bytes);

/* The bytes of the argument under way go elsewhere: the parser sees the request as if it had none
 * of them there. */
void okv_resp_parser_skip(struct okv_resp_parser *parser);
/* The skipped bytes are complete, at `bytes`. */
void okv_resp_parser_skipped(struct okv_resp_parser *parser, const uint8_t *bytes);

#endif
