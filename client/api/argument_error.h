/*
 * The sentence about a call that was refused for its arguments: okv_why() has it until the next
 * call.
 *
 * A get on the fast path and a successful submit do not clear it: that would be a store per call.
 * okv_why() compares call_count() instead, which every one of them changes.
 */
#ifndef OKV_CLIENT_API_ARGUMENT_ERROR_H
#define OKV_CLIENT_API_ARGUMENT_ERROR_H

#include "client/api/enter.h"
#include "client/handle.h"

/* Rises with each operation that begins and each result that is polled. */
static inline uint64_t call_count(const okv *handle)
{
    return handle->counters.reads + 2 * handle->operations_begun - handle->pending;
}

/* For calls that may leave call_count() as it was. */
static inline void argument_error_clear(okv *handle)
{
    handle->argument_error.text[0] = '\0';
}

/* Writes "CALL: ", then the sentence, and returns `code`. The sentence begins with the argument's
 * name. */
int argument_error(okv *handle, int code, const char *call, const char *format, ...)
    __attribute__((cold, format(printf, 4, 5)));
/* The same with OKV_EINVAL, as a whole call: it enters and leaves. `handle` may be NULL. */
int argument_refuse(okv *handle, const char *call, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));

/* Keeps a sentence that was written earlier in this call, before other operations began. */
static inline void argument_error_keep(okv *handle)
{
    handle->argument_error_at = call_count(handle);
}

#endif
