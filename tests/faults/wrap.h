/* How a wrapper is written: each names the ways in which its function fails. */
#ifndef OKV_TESTS_WRAP_H
#define OKV_TESTS_WRAP_H

#include <errno.h>

#include "tests/faults/inject.h"

#define WRAP_ASK(NAME, ...)                                                      \
    inject_point(#NAME, __builtin_return_address(0), (const int[]){__VA_ARGS__}, \
                 sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* Returns FAILED and sets errno. */
#define WRAP(TYPE, FAILED, NAME, PARAMETERS, ARGUMENTS, ...) \
    TYPE __real_##NAME PARAMETERS;                           \
    TYPE __wrap_##NAME PARAMETERS;                           \
    TYPE __wrap_##NAME PARAMETERS                            \
    {                                                        \
        int way = WRAP_ASK(NAME, __VA_ARGS__);               \
        if (way == 0)                                        \
            return __real_##NAME ARGUMENTS;                  \
        errno = way;                                         \
        return FAILED;                                       \
    }

/* Returns the error itself. */
#define WRAP_CODE(TYPE, NAME, PARAMETERS, ARGUMENTS, ...) \
    TYPE __real_##NAME PARAMETERS;                        \
    TYPE __wrap_##NAME PARAMETERS;                        \
    TYPE __wrap_##NAME PARAMETERS                         \
    {                                                     \
        int way = WRAP_ASK(NAME, __VA_ARGS__);            \
        return way ? way : __real_##NAME ARGUMENTS;       \
    }

#endif
