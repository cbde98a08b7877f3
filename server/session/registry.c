#include "server/session/registry.h"

void okv_registry_init(struct okv_registry *registry)
{
    TAILQ_INIT(&registry->all);
    pthread_mutex_init(&registry->lock, NULL);
}

void okv_registry_fini(struct okv_registry *registry)
{
    pthread_mutex_destroy(&registry->lock);
}

void okv_registry_add(struct okv_registry *registry, struct okv_session *session)
{
    pthread_mutex_lock(&registry->lock);
    TAILQ_INSERT_TAIL(&registry->all, session, in_registry);
    pthread_mutex_unlock(&registry->lock);
}

void okv_registry_remove(struct okv_registry *registry, struct okv_session *session)
{
    pthread_mutex_lock(&registry->lock);
    TAILQ_REMOVE(&registry->all, session, in_registry);
    pthread_mutex_unlock(&registry->lock);
}

bool okv_registry_set_rights(struct okv_registry *registry, okv_session_rights *rights,
                             const void *user)
{
    struct okv_session *session;
    bool has_ended = false;

    pthread_mutex_lock(&registry->lock);
    TAILQ_FOREACH(session, &registry->all, in_registry)
    {
        unsigned now = rights(session, user);
        atomic_store(&session->rights, now);
        has_ended = has_ended || now == 0;
    }
    pthread_mutex_unlock(&registry->lock);
    return has_ended;
}
