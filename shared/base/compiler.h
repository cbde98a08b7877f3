/* What the compiler cannot know by itself. */
#ifndef OKV_SHARED_BASE_COMPILER_H
#define OKV_SHARED_BASE_COMPILER_H

/* A condition that seldom holds: what follows when it does is compiled to elsewhere. */
#define unlikely(condition) __builtin_expect(!!(condition), 0)

#endif
