/*
 * The sentence about a call that was refused for its arguments: okv_why() has it until the next
 * call.
 *
 * A get on the fast path and a submit that takes its commands do not touch it. That they happened
 * shows in numbers that they change anyway: refusal_moment().
 */
#ifndef OKV_CLIENT_ENGINE_REFUSAL_H
#define OKV_CLIENT_ENGINE_REFUSAL_H

#include "client/handle.h"

/* Rises with each operation that begins and each result that is polled. */
static inline uint64_t refusal_moment(const okv *handle)
{
    return handle->counters.reads + 2 * handle->taken - handle->pending;
}

/* There is none: for calls that refusal_moment() may not show. */
static inline void refusal_clear(okv *handle)
{
    handle->refused.text[0] = '\0';
}

/* Writes "CALL: ", then the sentence, and returns `code`. The sentence begins with the argument's
 * name. `handle` may be NULL. */
int refuse(okv *handle, int code, const char *call, const char *format, ...)
    __attribute__((cold, format(printf, 4, 5)));

/* The sentence is of the call that ends here, though operations have begun since it was written. */
static inline void refusal_keep(okv *handle)
{
    handle->refused_at = refusal_moment(handle);
}

#endif
