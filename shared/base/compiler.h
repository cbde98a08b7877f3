/* Hints for the compiler. */
#ifndef OKV_SHARED_BASE_COMPILER_H
#define OKV_SHARED_BASE_COMPILER_H

/* A condition that rarely holds: its branch is moved out of the hot code. */
#define unlikely(condition) __builtin_expect(!!(condition), 0)

#endif
