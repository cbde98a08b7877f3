/* Wake-ups of a local endpoint: its descriptor becomes readable. */
#include "shared/transport/local/local.h"

#include <unistd.h>

void okv_local_signal(struct okv_local_endpoint *endpoint)
{
    uint64_t one = 1;
    ssize_t written = write(endpoint->wake_fd, &one, sizeof one);

    (void)written; /* fails only when the counter is full, and the descriptor then is readable */
}

void okv_local_announce(struct okv_local_endpoint *endpoint)
{
    if (endpoint->armed) {
        endpoint->armed = false;
        okv_local_signal(endpoint);
    }
}
