/* Every call of libokv that takes a handle, for tests of what holds for all of them. */
#ifndef OKV_TESTS_HANDLE_CALLS_H
#define OKV_TESTS_HANDLE_CALLS_H

#include <okv.h>

struct handle_call {
    const char *name;
    /* Makes the call with arguments that are right, on a handle that refuses it. Returns its code,
     * and of a call without one OKV_EINVAL when it did what a refused one does. */
    int (*make)(okv *handle);
};

/* Ends with a name that is NULL; okv_close() is the last. */
extern const struct handle_call handle_calls[];

/* Makes all calls but okv_close(). NULL: each returned OKV_EINVAL, and okv_why() had a sentence
 * that begins with its name and contains `why`. Else the name of one that did not. */
const char *handle_calls_accepted(okv *handle, const char *why);

#endif
