/*
 * The sentence about a call that was refused for its arguments: okv_why() has it until the next
 * call.
 *
 * A get on the fast path and a successful submit do not clear it: that would be a store per call.
 * okv_why() compares refusal_moment() instead, which every one of them changes.
 */
#ifndef OKV_CLIENT_ENGINE_REFUSAL_H
#define OKV_CLIENT_ENGINE_REFUSAL_H

#include "client/handle.h"

/* Rises with each operation that begins and each result that is polled. */
static inline uint64_t refusal_moment(const okv *handle)
{
    return handle->counters.reads + 2 * handle->operations_begun - handle->pending;
}

/* For calls that may leave refusal_moment() as it was. */
static inline void refusal_clear(okv *handle)
{
    handle->refused.text[0] = '\0';
}

/* Writes "CALL: ", then the sentence, and returns `code`. The sentence begins with the argument's
 * name. `handle` may be NULL. */
int refuse(okv *handle, int code, const char *call, const char *format, ...)
    __attribute__((cold, format(printf, 4, 5)));

/* Keeps a sentence that was written earlier in this call, before other operations began. */
static inline void refusal_keep(okv *handle)
{
    handle->refused_at = refusal_moment(handle);
}

#endif
