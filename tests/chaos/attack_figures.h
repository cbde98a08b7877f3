/* What attack_test says of honest clients at rest and under attack. */
#ifndef OKV_TESTS_ATTACK_FIGURES_H
#define OKV_TESTS_ATTACK_FIGURES_H

#include "tests/chaos/honest.h"

struct attack_figures {
    const char *name; /* of the attack, or the attacks */
    struct honest_figures at_rest, attacked;
    double kill_ms; /* from the first kill of the attackers' sessions until all were gone; -1: they
                     * had none */
    double stop_ms; /* from SIGTERM to the end of the server, under attack */
};

void attack_figures_init(struct attack_figures *figures);

void attack_figures_print(const struct attack_figures *figures);
/* Writes them as a file of results (bench/report/results.jq), whose rows have the figures of each
 * cell as numbers, too. Returns 0, or a negative errno. */
int attack_figures_write(const struct attack_figures *figures, const char *path);

#endif
