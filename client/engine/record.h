/* What okv_options.log is told: a sentence about the handle's connection, on the caller's thread.
 */
#ifndef OKV_CLIENT_ENGINE_RECORD_H
#define OKV_CLIENT_ENGINE_RECORD_H

#include <stdio.h>

#include "client/handle.h"

static inline void record(okv *handle, int level, const char *what, const char *sentence)
{
    char text[512];

    if (!handle->log.tell)
        return;
    snprintf(text, sizeof text, "%s: %s%s", handle->link.uri_text, what, sentence);
    handle->log.tell(handle->log.user, level, text);
}

#endif
