/* The command line of kv-bench, checked. */
#ifndef OKV_BENCH_OPTIONS_H
#define OKV_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/workload.h"
#include "shared/default_uri.h"

struct options {
    const char *uri;
    bool server_named;                     /* by -s or OKV_SERVER, not the well-known path */
    char well_known[OKV_DEFAULT_URI_TEXT]; /* what `uri` points to when it was not named */
    uint64_t records;
    uint64_t operations; /* per round, of all threads; 0: as many as fit `seconds` */
    double seconds;      /* per round; 0: until `operations` are done */
    double warmup;       /* seconds */
    uint32_t threads;
    uint32_t depth;    /* operations that each thread keeps under way */
    uint32_t get_many; /* gets of a batch; 0: operations one by one */
    enum workload_distribution distribution;
    double theta;
    uint32_t key_size;
    uint32_t value_size;
    unsigned get_percent; /* the others are puts */
    uint32_t rounds;
    uint64_t seed;
    uint32_t timeout_ms; /* 0: the library's default */
    bool load;
    bool floor;
    bool registered; /* values are read into registered memory */
    bool progress;
    const char *json; /* NULL: none; "-": stdout */
};

/* Fills `options` from the command line. On a usage error, and for --help and
 * --version, it ends the program. */
void options_parse(struct options *options, int argc, char **argv);

const char *options_distribution_name(enum workload_distribution distribution);

#endif
