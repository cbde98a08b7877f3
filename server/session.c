#include "server/session.h"

#include <stdlib.h>

#include "shared/error.h"

struct okv_session *okv_session_create(uint64_t id, unsigned listener, uint32_t credits)
{
    struct okv_session *session = malloc(sizeof *session);

    if (!session)
        return NULL;
    *session = (struct okv_session){.id = id, .listener = listener, .credits = credits};
    session->deferred = calloc(credits, sizeof *session->deferred);
    if (!session->deferred) {
        free(session);
        return NULL;
    }
    return session;
}

void okv_session_destroy(struct okv_session *session)
{
    if (!session)
        return;
    free(session->deferred);
    free(session);
}

int okv_session_defer(struct okv_session *session, const struct okv_event *request)
{
    if (okv_session_is_full(session))
        return OKV_ECREDIT;
    uint32_t at = (session->deferred_first + session->deferred_count) % session->credits;
    session->deferred[at] = *request;
    session->deferred_count++;
    return 0;
}

const struct okv_event *okv_session_oldest(const struct okv_session *session)
{
    return session->deferred_count ? &session->deferred[session->deferred_first] : NULL;
}

void okv_session_drop_oldest(struct okv_session *session)
{
    session->deferred_first = (session->deferred_first + 1) % session->credits;
    session->deferred_count--;
}
