/* The clocks of a server beside those of this host. */
#ifndef OKV_CLIENT_CLI_DOCTOR_CLOCKS_H
#define OKV_CLIENT_CLI_DOCTOR_CLOCKS_H

#include <okv.h>
#include <stdint.h>

/* The clocks of a server and of this host, read within `spread_us` of each other. */
struct doctor_clocks {
    uint64_t wall_us, lease_us;         /* the server's */
    uint64_t own_wall_us, own_lease_us; /* in the middle of the exchange */
    uint64_t spread_us;                 /* half its length */
};

/* What two readings say. */
struct doctor_clock_rates {
    int64_t ahead_us; /* the server's wall clock, beside this host's */
    int64_t ppm;      /* how much faster its lease clock runs than this host's */
    int64_t error_ppm;
};

/* Takes the shortest of some exchanges. Returns the code. */
int doctor_clocks_read(okv *handle, struct doctor_clocks *out);
/* `second` was read later. */
struct doctor_clock_rates doctor_clocks_compare(const struct doctor_clocks *first,
                                                const struct doctor_clocks *second);

#endif
