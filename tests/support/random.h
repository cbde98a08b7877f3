/* Random numbers that a seed repeats. splitmix64: https://doi.org/10.1145/2660193.2660195 */
#ifndef OKV_TESTS_RANDOM_H
#define OKV_TESTS_RANDOM_H

#include <stdint.h>

/* A number that follows from `x` and looks like chance. */
static inline uint64_t random_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t number = random_mix(*state);

    *state += UINT64_C(0x9e3779b97f4a7c15);
    return number;
}

/* From 0 to end - 1. */
static inline uint64_t random_below(uint64_t *state, uint64_t end)
{
    return random_next(state) % end;
}

/* $OKV_TEST_SEED; without it always the same, and with OKV_LONG=1 one from the system. Prints it.
 */
uint64_t random_seed(void);

#endif
