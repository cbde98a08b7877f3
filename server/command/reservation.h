/*
 * A database's memory that extents take while a transfer of a long value is under way: together no
 * more than a part of it. One transfer at a time may exceed that; others beyond it wait. Any
 * thread.
 */
#ifndef OKV_SERVER_COMMAND_RESERVATION_H
#define OKV_SERVER_COMMAND_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

struct okv_database;

/* Starts as zeros. */
struct okv_reservation {
    uint64_t bytes; /* that count */
    bool exceeds;   /* it has more than its share, and none of it counts */
};

/* `own` is what the same client has reserved. False: try again later. */
bool okv_reserve(struct okv_database *database, uint64_t *own, struct okv_reservation *reservation,
                 uint64_t bytes);
/* Accepts one that has nothing. */
void okv_unreserve(struct okv_database *database, uint64_t *own,
                   struct okv_reservation *reservation);

#endif
