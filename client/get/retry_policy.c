#include "client/get/retry_policy.h"

/* Images before the client asks the server, and after a reply without room for the value. */
#define ATTEMPTS 16
#define ATTEMPTS_EXTENDED 64
/* Redirects in a row before the directory entry is suspected to be stale. */
#define REDIRECTS_MAX 3

void retry_init(struct lookup *lookup)
{
    lookup->attempts = 0;
    lookup->limit = ATTEMPTS;
    lookup->rejected = 0;
    lookup->redirects = 0;
    lookup->settled = false;
    lookup->asked = false;
}

void retry_extend(struct lookup *lookup)
{
    lookup->limit = ATTEMPTS_EXTENDED;
}

enum retry_action retry_rejected(struct lookup *lookup)
{
    /* From the second rejected image on, repeated. After a good image tearing is the likely cause,
     * and the offset is suspected only half of the time. */
    static const enum retry_action actions[2][4] = {
        [false] = {RETRY_DIRECTORY, RETRY_OTHER, RETRY_DIRECTORY, RETRY_OTHER},
        [true] = {RETRY_DIRECTORY, RETRY_OTHER, RETRY_SAME, RETRY_SAME},
    };

    if (++lookup->rejected == 1)
        return RETRY_SAME;
    return actions[lookup->settled][(lookup->rejected - 2) % 4];
}

enum retry_limit retry_attempt(struct lookup *lookup)
{
    if (++lookup->attempts < lookup->limit)
        return RETRY_READ;
    if (lookup->asked)
        return RETRY_NONE;
    lookup->asked = true;
    return RETRY_REQUEST;
}

bool retry_redirected(struct lookup *lookup)
{
    return ++lookup->redirects >= REDIRECTS_MAX;
}
