#include "server/command/reservation.h"

#include "server/database/database.h"

/* Extents of transfers under way take at most this part of a database's memory. */
#define RESERVED_PART 4u

/*
 * A client gets as much as it leaves to others. So n clients that take what they can get leave
 * 1/(n+1) of the part, and the next client has as much as each of them. One transfer of a
 * database at a time may be of any length: it waits for no more than the one before it.
 */
bool okv_reserve(struct okv_database *database, uint64_t *own, struct okv_reservation *reservation,
                 uint64_t bytes)
{
    uint64_t part = database->region.length / RESERVED_PART;
    uint64_t taken = atomic_fetch_add(&database->reserved, bytes);
    uint64_t left = taken < part ? part - taken : 0;

    if (*own + bytes > left) {
        atomic_fetch_sub(&database->reserved, bytes);
        reservation->exceeds = !atomic_exchange(&database->is_exceeded, true);
        return reservation->exceeds;
    }
    *own += bytes;
    reservation->bytes = bytes;
    return true;
}

void okv_unreserve(struct okv_database *database, uint64_t *own,
                   struct okv_reservation *reservation)
{
    *own -= reservation->bytes;
    atomic_fetch_sub(&database->reserved, reservation->bytes);
    if (reservation->exceeds)
        atomic_store(&database->is_exceeded, false);
    *reservation = (struct okv_reservation){.bytes = 0};
}
