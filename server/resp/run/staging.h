/*
 * The changes of a script before they are made. Its commands see them: okv_resp_look(),
 * okv_resp_modify() and okv_resp_remove() (lookup.h) of a call that has a staging lead here. The
 * end applies all of them as one change, or none (store/change_set.h).
 *
 * It knows the version of each item that the script has looked at. So a script that others did not
 * keep from changing items meanwhile notices it at its end.
 */
#ifndef OKV_SERVER_RESP_RUN_STAGING_H
#define OKV_SERVER_RESP_RUN_STAGING_H

#include <sys/time.h>

#include "server/store/change_set.h"
#include "server/store/store.h"

struct okv_resp_arg;
struct okv_resp_call;

/* Of a worker; starts as zeros. Its memory stays for the next script, unless it is much. */
struct okv_resp_staging {
    struct okv_resp_staged *items; /* [capacity] */
    uint32_t count, capacity;
    uint32_t *slots; /* [mask + 1], by hash: index + 1 of an item; 0: free */
    uint32_t mask;
    uint64_t bytes;      /* of keys and values */
    uint64_t clock_ms;   /* of the store, for all of the script */
    struct timeval wall; /* likewise; 0: neither was looked at yet */
    bool is_outdated;    /* an item changed between two looks at it */
    bool has_no_memory;
};

/* Nothing is staged any more. */
void okv_resp_staging_clear(struct okv_resp_staging *staging);
void okv_resp_staging_fini(struct okv_resp_staging *staging);
/* Whether others may see changes of a script one by one, or change what it has looked at. */
bool okv_resp_staging_has_neighbours(const struct okv_resp_call *call);
/* Items that differ from what is stored. */
uint32_t okv_resp_staging_changes(const struct okv_resp_staging *staging);

/* As the functions of lookup.h. A look is a use of an item that the script has not changed. */
int okv_resp_staging_look(struct okv_resp_call *call, const struct okv_resp_arg *key, bool is_use,
                          okv_store_visit *visit, void *user);
int okv_resp_staging_modify(struct okv_resp_call *call, const struct okv_resp_arg *key,
                            okv_store_decide *decide, void *user);
int okv_resp_staging_remove(struct okv_resp_call *call, const struct okv_resp_arg *key);

/* The times of the script, which stand still: of the store's clock, and of the wall's. */
uint64_t okv_resp_staging_now_ms(const struct okv_resp_call *call);
struct timeval okv_resp_staging_wall(const struct okv_resp_call *call);

/* Makes the changes, and counts them. Errors as of okv_store_change_set(); with `compares`
 * OKV_ECONFLICT, when others changed an item that the script looked at. */
int okv_resp_staging_apply(struct okv_resp_call *call, bool compares);

#endif
