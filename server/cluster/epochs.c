#include "server/cluster/epochs.h"

#include <string.h>

bool okv_epochs_are_valid(const struct okv_epochs *epochs, uint64_t last)
{
    if (epochs->count == 0 || epochs->count > OKV_EPOCHS_MAX)
        return false;
    for (unsigned i = 0; i < epochs->count; i++) {
        if (i > 0 && (epochs->of[i].epoch <= epochs->of[i - 1].epoch ||
                      epochs->of[i].begin < epochs->of[i - 1].begin))
            return false;
    }
    return epochs->of[0].epoch > 0 && epochs->of[epochs->count - 1].epoch == last;
}

void okv_epochs_add(struct okv_epochs *epochs, uint64_t epoch, uint64_t begin)
{
    while (epochs->count > 0 && epochs->of[epochs->count - 1].begin > begin)
        epochs->count--;
    if (epochs->count == OKV_EPOCHS_MAX)
        memmove(epochs->of, epochs->of + 1, --epochs->count * sizeof epochs->of[0]);
    epochs->of[epochs->count].epoch = epoch;
    epochs->of[epochs->count].begin = begin;
    epochs->count++;
}

uint64_t okv_epochs_at(const struct okv_epochs *epochs, uint64_t position)
{
    for (unsigned i = epochs->count; i > 0; i--)
        if (epochs->of[i - 1].begin < position)
            return epochs->of[i - 1].epoch;
    return 0;
}

bool okv_epochs_cut(const struct okv_epochs *epochs, uint64_t epoch, uint64_t position,
                    uint64_t *cut)
{
    for (unsigned i = 0; i < epochs->count; i++) {
        if (epochs->of[i].epoch != epoch)
            continue;
        uint64_t end = i + 1 < epochs->count ? epochs->of[i + 1].begin : UINT64_MAX;
        *cut = position < end ? position : end;
        return true;
    }
    return false;
}
