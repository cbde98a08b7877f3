/* The options of kv-bench(1), in one table: docs/how-to-add.md. */
#ifndef OKV_BENCH_OPTION_TABLE_H
#define OKV_BENCH_OPTION_TABLE_H

#include "shared/base/options.h"

extern const char bench_about[];
/* Their fields are those of struct options. */
extern const struct okv_option bench_options[];

#endif
