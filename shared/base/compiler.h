/*
 * Where code is compiled to. A path that is taken millions of times a second is to be short and in
 * one piece: every call is a jump there and back, and what lies in between is fetched with it.
 * Natively that is a few ns; an emulated CPU, as of the test guest, looks up where each return
 * leads to.
 */
#ifndef OKV_SHARED_BASE_COMPILER_H
#define OKV_SHARED_BASE_COMPILER_H

/* A condition that usually holds: what follows when it does not is compiled to elsewhere. */
#define OKV_USUALLY(condition) __builtin_expect(!!(condition), 1)
/* All that the function calls and the compiler sees, which with LTO is everything, is compiled into
 * it, but for what is marked as follows. */
#define OKV_FLAT __attribute__((flatten))
/* Begins a page of code: what is nearest to its beginning is in one. */
#define OKV_PAGE __attribute__((aligned(4096)))
/* Stays a function of its own. */
#define OKV_APART __attribute__((noinline))
/* The same, and the branches that lead to it are not the usual ones. */
#define OKV_SELDOM __attribute__((noinline, cold))

#endif
