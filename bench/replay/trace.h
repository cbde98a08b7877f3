/*
 * A trace: what a cache was asked for, in order. A key is known by its id, its place in the order
 * in which keys appear, from 0 on.
 *
 * The file is text, one request a line: KEY [SIZE], a word and the bytes of its value. Lines that
 * begin with '#' and empty ones are left out. The first line with a key decides its size. Without
 * a SIZE that follows from the key, and the key is filled up to 24 or 32 bytes.
 */
#ifndef OKV_BENCH_REPLAY_TRACE_H
#define OKV_BENCH_REPLAY_TRACE_H

#include <stddef.h>
#include <stdint.h>

struct trace {
    uint32_t *requests; /* ids, [count] */
    size_t count;
    uint32_t keys;       /* different ones */
    char *bytes;         /* of all keys, one after the other */
    uint64_t *ends;      /* [keys]: where each ends in `bytes` */
    uint32_t *sizes;     /* [keys]: of their values */
    uint32_t key_least;  /* bytes of the shortest key, */
    uint32_t key_most;   /* of the longest, */
    uint32_t value_most; /* of the largest value */
    uint32_t value_least;
};

#define TRACE_WHY_TEXT 512

/* Reads a file, "-": standard input. Returns 0, or OKV_EINVAL or OKV_ENOMEM with a sentence in
 * `why`, which names the file and the line. Call trace_fini() in any case. */
int trace_read(const char *path, struct trace *trace, char why[TRACE_WHY_TEXT]);
void trace_fini(struct trace *trace);

/* What the values of a key follow from: the same in every trace. */
uint64_t trace_number(const struct trace *trace, uint64_t id);

static inline const char *trace_key(const struct trace *trace, uint64_t id, size_t *length)
{
    uint64_t start = id > 0 ? trace->ends[id - 1] : 0;

    *length = (size_t)(trace->ends[id] - start);
    return trace->bytes + start;
}

#endif
