#include "bench/load/held.h"

#include <math.h>

#define NEARLY 0.95

void held_add(struct held *held, double items)
{
    if (isnan(items))
        return;
    if (items > held->most)
        held->most = items;
    if (held->samples == 0 || held->first < NEARLY * held->most)
        *held = (struct held){.most = held->most, .first = items};
    held->sum += items;
    held->samples++;
}

double held_mean(const struct held *held)
{
    return held->samples > 0 ? held->sum / (double)held->samples : NAN;
}
