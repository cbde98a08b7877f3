/* What a lookup does after an image that led nowhere. */
#ifndef OKV_CLIENT_GET_RETRY_POLICY_H
#define OKV_CLIENT_GET_RETRY_POLICY_H

#include "client/operation.h"

/* The suspicion that the next READ checks. */
enum retry_action {
    RETRY_SAME,      /* the image was torn: READ the bucket again */
    RETRY_DIRECTORY, /* the bucket has moved: READ its directory entry, then the bucket */
    RETRY_OTHER,     /* the bucket is gone: READ one with a lower number and look at its depth */
};

/* Whether there is another attempt. */
enum retry_limit {
    RETRY_READ,    /* yes, by READs */
    RETRY_REQUEST, /* no: ask the server, as a bucket under constant writing tears nearly every
                      image */
    RETRY_NONE,    /* no, and the server was asked already */
};

/* Before the first READ. */
void retry_init(struct lookup *lookup);
/* Allows more attempts, after a reply without room for the value. */
void retry_extend(struct lookup *lookup);
/* An image failed its checks. */
enum retry_action retry_rejected(struct lookup *lookup);
/* Begins one more attempt. */
enum retry_limit retry_attempt(struct lookup *lookup);
/* An image named another bucket. True after several in a row: one of the buckets was READ at a
 * stale offset. */
bool retry_redirected(struct lookup *lookup);

#endif
