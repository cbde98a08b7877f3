/*
 * What a proof costs: how long okv_open() and okv_close() take with a server without users and with
 * one that has them.
 *
 *   handshake OPEN_URI USERS_URI USER KEY_FILE [--rounds N] [--opens N]
 *
 * Each round opens and closes handles of the two servers alternately, and takes the median of each.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include <okv.h>

#include "shared/base/clock.h"
#include "tests/figures/figure.h"

#define OPENS_MAX 10000

enum { WITHOUT_USERS, WITH_USERS, SERVERS };
enum { OPEN_URI, USERS_URI, USER, KEY_FILE, WORDS };

struct handshakes {
    const char *words[WORDS];
    uint64_t rounds, opens;
    uint64_t times[SERVERS][OPENS_MAX];         /* ns */
    double medians[FIGURE_ROUNDS_MAX][SERVERS]; /* us */
};

static uint64_t open_and_close(const char *uri, const struct okv_options *options)
{
    char why[320];
    okv *handle;
    uint64_t begin = okv_clock_ns();

    if (okv_open(uri, options, &handle, why, sizeof why)) {
        fprintf(stderr, "handshake: %s\n", why);
        exit(1);
    }
    okv_close(&handle);
    return okv_clock_ns() - begin;
}

static void measure(struct handshakes *all, double medians[SERVERS])
{
    const struct okv_options nobody = {.user = NULL};
    const struct okv_options somebody = {.user = all->words[USER],
                                         .key_file = all->words[KEY_FILE]};

    for (uint64_t i = 0; i < all->opens; i++) {
        all->times[WITHOUT_USERS][i] = open_and_close(all->words[OPEN_URI], &nobody);
        all->times[WITH_USERS][i] = open_and_close(all->words[USERS_URI], &somebody);
    }
    for (unsigned server = 0; server < SERVERS; server++)
        medians[server] = (double)figure_median_time(all->times[server], all->opens) / 1e3;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct handshakes *all = state->input;

    switch (key) {
    case 'r':
        all->rounds = figure_number(text, 1, FIGURE_ROUNDS_MAX, state);
        return 0;
    case 'o':
        all->opens = figure_number(text, 1, OPENS_MAX, state);
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num >= WORDS)
            return ARGP_ERR_UNKNOWN;
        all->words[state->arg_num] = text;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < WORDS)
            argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"rounds", 'r', "N", 0, "Rounds (11)", 0},
        {"opens", 'o', "N", 0, "Handles of each server in a round (50)", 0},
        {0},
    };
    static const struct argp argp = {.options = options,
                                     .parser = parse_option,
                                     .args_doc = "OPEN_URI USERS_URI USER KEY_FILE",
                                     .doc = "How long okv_open() and okv_close() take, without "
                                            "users and with them."};
    static const char *const names[SERVERS] = {"without users", "with users"};
    static struct handshakes all = {.rounds = 11, .opens = 50};

    argp_parse(&argp, argc, argv, 0, NULL, &all);
    for (uint64_t round = 0; round < all.rounds; round++)
        measure(&all, all.medians[round]);
    figure_print_cases(
        &(struct figure_cases){
            .names = names, .times = all.medians[0], .count = SERVERS, .rounds = all.rounds},
        false);
    return 0;
}
