/* Sentences about the handle's connection for okv_options.log, on the caller's thread. */
#ifndef OKV_CLIENT_ENGINE_LOG_EVENT_H
#define OKV_CLIENT_ENGINE_LOG_EVENT_H

#include <stdio.h>

#include "client/handle.h"

/* Logs `what` and then `sentence`. */
static inline void log_event(okv *handle, int level, const char *what, const char *sentence)
{
    char text[512];

    if (!handle->log.tell)
        return;
    snprintf(text, sizeof text, "%s: %s%s", handle->link.uri_text, what, sentence);
    handle->log.tell(handle->log.user, level, text);
}

#endif
