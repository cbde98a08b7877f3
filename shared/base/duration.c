#include "shared/base/duration.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"

/* Milliseconds; 0: it is no unit. */
static uint64_t unit_ms(const char *unit)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ms;
    return 0;
}

int okv_duration_parse(const char *text, uint64_t *ms)
{
    char *unit;

    if (!isdigit((unsigned char)*text))
        return OKV_EINVAL;
    errno = 0;
    uint64_t number = strtoull(text, &unit, 10);
    uint64_t factor = unit_ms(unit);
    if (errno || !factor || number > UINT64_MAX / factor)
        return OKV_EINVAL;
    *ms = number * factor;
    return OKV_OK;
}
