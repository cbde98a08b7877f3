#include "server/copies/elections.h"

/* A copy that has just started, or that its primary released, suspects nobody. */
static bool has_suspected(const struct okv_elections *before, const struct okv_protocol *now)
{
    return now->is_suspecting && !before->is_suspecting && now->leader != 0 &&
           now->released != now->epoch;
}

static bool has_taken_over(const struct okv_elections *before, const struct okv_protocol *now)
{
    return now->role == OKV_ROLE_PRIMARY && before->role != OKV_ROLE_PRIMARY &&
           before->primary != now->self.server && now->released + 1 != now->epoch;
}

/* A primary that hands over keeps its epoch until another one begins. */
static bool was_deposed(const struct okv_elections *before, const struct okv_protocol *now)
{
    return before->role == OKV_ROLE_PRIMARY && now->role != OKV_ROLE_PRIMARY &&
           now->epoch > before->epoch;
}

void okv_elections_note(struct okv_copy *copy)
{
    const struct okv_protocol *now = &copy->protocol;
    struct okv_elections *elections = &copy->elections;

    elections->suspected += has_suspected(elections, now);
    elections->took_over += has_taken_over(elections, now);
    elections->deposed += was_deposed(elections, now);
    if (now->role == OKV_ROLE_PRIMARY && elections->role != OKV_ROLE_PRIMARY)
        elections->predecessor = elections->primary;
    elections->role = now->role;
    elections->epoch = now->epoch;
    elections->primary = now->key.primary.server;
    elections->is_suspecting = now->is_suspecting;
}
