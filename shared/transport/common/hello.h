/* The hello of a client that connects, and the next one after a rejection. */
#ifndef OKV_SHARED_TRANSPORT_COMMON_HELLO_H
#define OKV_SHARED_TRANSPORT_COMMON_HELLO_H

#include "shared/transport/transport.h"

struct okv_connect_hello {
    uint8_t bytes[OKV_HELLO_MAX]; /* zero beyond `length` */
    size_t length;
    okv_next_hello *next; /* NULL: every rejection is final */
    void *user;           /* of `next` */
};

/* Copies the hello of `params`. OKV_EINVAL with a sentence for one that is too long. */
int okv_hello_init(struct okv_connect_hello *hello, const struct okv_connect_params *params,
                   struct okv_diag *diag);
/* The server has given `answer`. True when it is a rejection, and the caller has another hello for
 * the same binding, which is in `bytes` now. */
bool okv_hello_renew(struct okv_connect_hello *hello, const struct okv_answer *answer,
                     const struct okv_binding *binding);
/* Another attempt begins, with another binding: the hello is for it. */
void okv_hello_restart(struct okv_connect_hello *hello);

#endif
