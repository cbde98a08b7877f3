/*
 * A long value on its way to a database: from a client's memory, from a socket, or made of the
 * value that is there. Native and RESP clients have the same steps:
 *
 *   reserve   a share of the database's memory (reservation.h), and the extent
 *   ...       the bytes come, or are copied (store/long_value.h)
 *   store     in a durable database: in a file of its own, if the value is long enough for one
 *   keep      the value was set: the file belongs to the log
 *   release   in any case
 */
#ifndef OKV_SERVER_COMMAND_LONG_TRANSFER_H
#define OKV_SERVER_COMMAND_LONG_TRANSFER_H

#include "server/command/reservation.h"
#include "server/store/long_value.h"

struct okv_blob;
struct okv_executor;

/* Starts as zeros. */
struct okv_long_transfer {
    struct okv_store_long_value value;
    struct okv_reservation reservation;
    struct okv_blob *stored; /* by the log, in a file, until the value is set; or NULL */
};

/* `own` is what the client has reserved. OKV_EVALUESIZE; OKV_EFULL; OKV_EAGAIN: there is no memory
 * for it at the moment. After an error there is nothing to release. */
int okv_long_transfer_reserve(struct okv_long_transfer *transfer,
                              const struct okv_executor *executor, uint64_t *own,
                              uint32_t key_length, uint32_t value_length);
/* When the value is complete. 0: it can be set. OKV_EAGAIN: the file is not stored yet.
 * OKV_EDISKFULL; OKV_EREADONLY: the log has failed. */
int okv_long_transfer_store(struct okv_long_transfer *transfer, struct okv_database *database);
/* The value was set, as this version of the key. */
void okv_long_transfer_keep(struct okv_long_transfer *transfer, struct okv_database *database,
                            const void *key, uint32_t key_length, uint64_t version);
void okv_long_transfer_release(struct okv_long_transfer *transfer, struct okv_database *database,
                               uint64_t *own);

#endif
