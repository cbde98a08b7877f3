#include "shared/base/crowd.h"

#include <stddef.h>
#include <string.h>

void okv_crowd_init(struct okv_crowd *crowd)
{
    *crowd = (struct okv_crowd){.count = 0};
    TAILQ_INIT(&crowd->members);
}

static bool is_from(const struct okv_crowd_member *member, const char *address)
{
    return strcmp(member->address, address) == 0;
}

void okv_crowd_add(struct okv_crowd *crowd, struct okv_crowd_member *member)
{
    struct okv_crowd_member *other;

    member->same = 1;
    TAILQ_FOREACH(other, &crowd->members, in_crowd)
    {
        if (is_from(other, member->address))
            member->same = ++other->same;
    }
    TAILQ_INSERT_TAIL(&crowd->members, member, in_crowd);
    crowd->count += !member->is_gone;
    crowd->gone += member->is_gone;
}

void okv_crowd_remove(struct okv_crowd *crowd, struct okv_crowd_member *member)
{
    struct okv_crowd_member *other;

    TAILQ_REMOVE(&crowd->members, member, in_crowd);
    crowd->count -= !member->is_gone;
    crowd->gone -= member->is_gone;
    TAILQ_FOREACH(other, &crowd->members, in_crowd)
    other->same -= is_from(other, member->address);
}

bool okv_crowd_has(const struct okv_crowd *crowd, const char *address)
{
    const struct okv_crowd_member *member;

    TAILQ_FOREACH(member, &crowd->members, in_crowd)
    {
        if (is_from(member, address))
            return true;
    }
    return false;
}

struct okv_crowd_member *okv_crowd_one_too_many(const struct okv_crowd *crowd)
{
    struct okv_crowd_member *found = NULL, *member;

    TAILQ_FOREACH(member, &crowd->members, in_crowd)
    {
        if (!member->is_gone && (!found || member->same > found->same))
            found = member;
    }
    return found;
}
