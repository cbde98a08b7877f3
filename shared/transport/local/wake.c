/* Wake-ups of a local endpoint: its descriptor becomes readable. */
#include "shared/transport/local/local.h"

void okv_local_announce(struct okv_local_endpoint *endpoint)
{
    if (endpoint->armed) {
        endpoint->armed = false;
        okv_wakeup_signal(&endpoint->wakeup);
    }
}
