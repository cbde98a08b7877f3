/* The command line of kv-bench, checked. */
#ifndef OKV_BENCH_OPTIONS_H
#define OKV_BENCH_OPTIONS_H

#include <okv.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/load/operation.h"
#include "bench/load/workload.h"
#include "bench/replay/make.h"
#include "bench/replay/trace.h"
#include "shared/base/default_uri.h"

#define OPTIONS_TARGETS_MAX 16
#define OPTIONS_NAME_TEXT 320

struct options {
    /* Each -s NAME=URI or -s URI, with each number of threads; rounds alternate between them. */
    struct options_target {
        const char *name; /* in the report: the URI unless it was given */
        const char *uri;
        uint32_t threads;
        bool load; /* stores the records: the first target of each server */
    } targets[OPTIONS_TARGETS_MAX];
    uint32_t target_count;
    char names[OPTIONS_TARGETS_MAX][OPTIONS_NAME_TEXT]; /* names with the number of threads */
    bool server_named;                                  /* by -s or OKV_SERVER */
    char well_known[OKV_DEFAULT_URI_TEXT];              /* the default URI, if none was named */

    struct okv_options okv; /* its database, user and certificates */

    /* stored items */
    uint32_t key_size;
    struct workload_values values;
    bool no_load;   /* the records are there; else each server gets them first */
    bool load_only; /* only load */
    bool keep;      /* leave the records */

    /* operations */
    char workload; /* 'a' to 'f', 0: none was named */
    struct workload_choice choice;
    double mix[OPERATION_MIXED_COUNT]; /* percentages; their sum is 100 */
    uint64_t seed;

    /* amount */
    uint64_t operations; /* per round, of all threads; 0: as many as fit `seconds` */
    double seconds;      /* per round; 0: until `operations` are done */
    double warmup;       /* seconds */
    uint64_t rate;       /* open loop: operations per second of all threads; 0: closed */
    bool even;           /* open loop: fixed distances; else a Poisson process */
    uint32_t threads[OPTIONS_TARGETS_MAX]; /* numbers to compare, usually one */
    uint32_t threads_count;
    uint32_t connections; /* of each thread */
    uint32_t depth;       /* operations under way per connection */
    uint32_t get_many;    /* gets of a batch; 0: no batches */
    uint32_t rounds;
    uint32_t timeout_ms; /* 0: the target's default */
    bool floor;
    bool registered; /* READ values into registered memory */

    /* replay */
    const char *replay;        /* the file of a trace; NULL: none */
    const struct trace *trace; /* its requests, read by main(); NULL: none */
    uint32_t replay_items;     /* of the exact policies; 0: as many as the server holds */

    struct make make; /* a trace to write to standard output, and nothing else */

    /* output */
    bool progress;
    const char *json; /* NULL: none; "-": stdout */
    const char *csv;  /* as json */
    const char *hdr;  /* prefix of the histogram files; NULL: none */
};

/* Fills `options` from the command line. Ends the program on a usage error, and for --help and
 * --version. */
void options_parse(struct options *options, int argc, char **argv);

#endif
