/* An upper bound of the server's lease clock: the server's clock is never ahead of it. */
#ifndef OKV_CLIENT_CONNECTION_LEASE_CLOCK_H
#define OKV_CLIENT_CONNECTION_LEASE_CLOCK_H

#include "client/handle.h"

/* No sample has come. */
#define LEASE_CLOCK_UNKNOWN UINT64_MAX

struct lease_time lease_time_now(void);
/* Takes in what the server's clock showed after `posted`. Earlier samples that contradict it are
 * dropped. */
void lease_clock_sample(struct lease_clock *clock, const struct lease_time *posted,
                        uint64_t server_us, const struct lease_time *now);
/* The bound in us; LEASE_CLOCK_UNKNOWN. `now` is after each sample. */
uint64_t lease_clock_upper_us(const struct lease_clock *clock, const struct lease_time *now);
/* The moment on our CLOCK_BOOTTIME, ns, before which the server's clock is certainly below
 * `valid_until_us`; 0: there is none. */
uint64_t lease_deadline_ns(const struct lease_clock *clock, uint64_t valid_until_us,
                           const struct lease_time *now);

#endif
