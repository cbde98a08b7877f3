/*
 * Parties that wait at a door which has room for a few. When there are too many, one from the
 * address with most of them leaves, so a flood displaces only itself. The caller locks.
 */
#ifndef OKV_SHARED_BASE_CROWD_H
#define OKV_SHARED_BASE_CROWD_H

#include <stdbool.h>
#include <sys/queue.h>

struct okv_crowd_member {
    const char *address; /* borrowed; does not change while it is a member */
    unsigned same;       /* members from there, with this one */
    bool is_gone;        /* it still counts for its address, and cannot leave any more */
    TAILQ_ENTRY(okv_crowd_member) in_crowd;
};

TAILQ_HEAD(okv_crowd_list, okv_crowd_member);

struct okv_crowd {
    struct okv_crowd_list members; /* oldest first */
    unsigned count;                /* without those that are gone */
    unsigned gone;
};

void okv_crowd_init(struct okv_crowd *crowd);
/* With its address and is_gone. */
void okv_crowd_add(struct okv_crowd *crowd, struct okv_crowd_member *member);
void okv_crowd_remove(struct okv_crowd *crowd, struct okv_crowd_member *member);
/* Whether one is from this address. */
bool okv_crowd_has(const struct okv_crowd *crowd, const char *address);
/* The oldest of those from where most come; NULL: there is none that is not gone. */
struct okv_crowd_member *okv_crowd_one_too_many(const struct okv_crowd *crowd);

#endif
