#include "client/cli/doctor/clocks.h"

#include <inttypes.h>
#include <okv_admin.h>
#include <stdio.h>

#include "shared/base/clock.h"

#define EXCHANGES 8

static int read_once(okv *handle, struct doctor_clocks *out)
{
    char text[128];
    size_t length;
    uint64_t wall_us = okv_clock_wall_us(), begin_us = okv_clock_lease_us();
    int rc = okv_admin(handle, "clocks", text, sizeof text, &length);
    uint64_t taken_us = okv_clock_lease_us() - begin_us;

    if (rc)
        return rc;
    if (sscanf(text, "wall_us %" SCNu64 " lease_us %" SCNu64, &out->wall_us, &out->lease_us) != 2)
        return OKV_EPROTO;
    out->own_wall_us = wall_us + taken_us / 2;
    out->own_lease_us = begin_us + taken_us / 2;
    out->spread_us = taken_us / 2 + 1;
    return OKV_OK;
}

int doctor_clocks_read(okv *handle, struct doctor_clocks *out)
{
    struct doctor_clocks one;
    int rc = read_once(handle, out);

    for (unsigned i = 1; i < EXCHANGES && rc == OKV_OK; i++) {
        rc = read_once(handle, &one);
        if (rc == OKV_OK && one.spread_us < out->spread_us)
            *out = one;
    }
    return rc;
}

struct doctor_clock_rates doctor_clocks_compare(const struct doctor_clocks *first,
                                                const struct doctor_clocks *second)
{
    int64_t own_us = (int64_t)(second->own_lease_us - first->own_lease_us);
    int64_t of_server_us = (int64_t)(second->lease_us - first->lease_us);
    int64_t spread_us = (int64_t)(first->spread_us + second->spread_us);

    return (struct doctor_clock_rates){
        .ahead_us = (int64_t)(second->wall_us - second->own_wall_us),
        .ppm = (of_server_us - own_us) * 1000000 / own_us,
        .error_ppm = spread_us * 1000000 / own_us + 1,
    };
}
