#include "server/net/admission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/format/wire.h"

int okv_admission_init(struct okv_admission *admission, uint32_t limit, uint32_t limit_per_address)
{
    *admission = (struct okv_admission){.limit = limit, .limit_per_address = limit_per_address};
    admission->addresses = calloc((size_t)limit + 1, sizeof *admission->addresses);
    if (!admission->addresses)
        return OKV_ENOMEM;
    pthread_mutex_init(&admission->lock, NULL);
    return 0;
}

void okv_admission_fini(struct okv_admission *admission)
{
    pthread_mutex_destroy(&admission->lock);
    free(admission->addresses);
}

/* The entry of the address, or a free one. There are more entries than clients. */
static uint32_t find(struct okv_admission *admission, const char *address)
{
    uint32_t unused = admission->reached;

    for (uint32_t i = 0; i < admission->reached; i++) {
        const struct okv_admission_address *at = &admission->addresses[i];
        if (at->clients == 0)
            unused = i;
        else if (strcmp(at->name, address) == 0)
            return i;
    }
    return unused;
}

int okv_admission_admit(struct okv_admission *admission, const char *address,
                        const uint32_t *leaving, uint32_t *index)
{
    int reason = 0;

    pthread_mutex_lock(&admission->lock);
    if (admission->clients >= admission->limit + (leaving != NULL)) {
        reason = OKV_REJECT_BUSY;
        goto unlock;
    }
    *index = find(admission, address);
    struct okv_admission_address *at = &admission->addresses[*index];
    uint32_t from_here = leaving && *leaving == *index;
    if (admission->limit_per_address && at->clients >= admission->limit_per_address + from_here) {
        reason = OKV_REJECT_ADDRESS;
        goto unlock;
    }
    if (at->clients == 0)
        snprintf(at->name, sizeof at->name, "%s", address);
    if (*index == admission->reached)
        admission->reached++;
    at->clients++;
    admission->clients++;
unlock:
    pthread_mutex_unlock(&admission->lock);
    return reason;
}

void okv_admission_release(struct okv_admission *admission, uint32_t index)
{
    pthread_mutex_lock(&admission->lock);
    admission->addresses[index].clients--;
    admission->clients--;
    pthread_mutex_unlock(&admission->lock);
}
