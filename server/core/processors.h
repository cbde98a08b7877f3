/*
 * Which processors the server's threads run on. Workers may have some of their own (--worker-cpus);
 * all other threads keep to the rest.
 */
#ifndef OKV_SERVER_CORE_PROCESSORS_H
#define OKV_SERVER_CORE_PROCESSORS_H

#include <sched.h>

#include "shared/base/diag.h"

/* Reads a list such as "2-5,8". OKV_EINVAL: it is no such list, names a processor that is not
 * usable, or leaves none to other threads. */
int okv_processors_parse(const char *text, const cpu_set_t *usable, cpu_set_t *out,
                         struct okv_diag *diag);
/* Keeps the calling thread and those that it creates from here on off the workers' processors. An
 * empty set is no list. */
void okv_processors_avoid(const cpu_set_t *of_workers);
/* Keeps the calling thread to the `index`-th of the set, if it has that many. */
void okv_processors_take(const cpu_set_t *of_workers, unsigned index);

#endif
