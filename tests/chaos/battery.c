#include "tests/chaos/battery.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/chaos/stalls.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"

#define EXIT_SKIPPED 77
#define SLACK_MS 500            /* on a fast idle machine */
#define STALL_FACTOR 2          /* after a stall there is more to be done than usual */
#define STALL_TOLD_SECONDS 0.05 /* in which a stall is noted that has ended */

static void usage(const char *name, const char *about)
{
    printf(
        "usage: chaos_%s_test [--long] [--weak] [--seed N] [WORD...]\n\n%s\n\n"
        "  --long     the long form (also OKV_LONG=1)\n"
        "  --weak     demand less: a client whose handle fails may open another, and the server\n"
        "             gets no options but size and number of clients\n"
        "  --seed N   repeats the choices, though not the timing (also OKV_TEST_SEED)\n\n"
        "Needs the guest: tests/chaos/run %s\n",
        name, about, name);
}

static void options_read(struct battery *battery, const char *about, int argc, char **argv)
{
    int at = 1;

    for (; at < argc && strncmp(argv[at], "--", 2) == 0; at++) {
        if (strcmp(argv[at], "--long") == 0) {
            battery->is_long = true;
        } else if (strcmp(argv[at], "--weak") == 0) {
            battery->weak = true;
        } else if (strcmp(argv[at], "--seed") == 0 && at + 1 < argc) {
            battery->seed = strtoull(argv[++at], NULL, 10);
        } else {
            bool help = strcmp(argv[at], "--help") == 0;
            usage(battery->name, about);
            exit(help ? 0 : 2);
        }
    }
    battery->words = argv + at;
    battery->word_count = argc - at;
}

/* A helper's assertion ends the program: there is to be a line all the same. */
static void on_exit_without_end(int status, void *user)
{
    const struct battery *battery = user;

    if (!battery->ended)
        printf("battery %s: FAILED: ended early with status %d, OKV_TEST_SEED=%" PRIu64 "\n",
               battery->name, status, battery->seed);
}

void battery_begin(struct battery *battery, const char *name, const char *about, int argc,
                   char **argv)
{
    const char *is_long = getenv("OKV_LONG");

    *battery = (struct battery){
        .name = name,
        .seed = random_seed(),
        .is_long = is_long && strcmp(is_long, "1") == 0,
        .begin_ns = okv_clock_ns(),
    };
    options_read(battery, about, argc, argv);
    battery->random = random_mix(battery->seed);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (access("/sys/class/infiniband/rxe1", F_OK) != 0 || !getenv("OKV_TEST_URI")) {
        printf("chaos_%s_test: needs two devices on a veth pair: tests/chaos/run %s\n", name, name);
        exit(EXIT_SKIPPED);
    }
    on_exit(on_exit_without_end, battery);
    pace_ms(SLACK_MS); /* measured while nothing else runs */
    stalls_watch();
}

static void say(struct battery *battery, const char *what, const char *format, va_list arguments)
{
    char text[1200];

    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "%s %6.1f s: %s%s\n", battery->name,
            (double)(okv_clock_ns() - battery->begin_ns) / 1e9, what, text);
}

void battery_fail(struct battery *battery, const char *format, ...)
{
    va_list arguments;

    battery->failures++;
    va_start(arguments, format);
    say(battery, "FAILED: ", format, arguments);
    va_end(arguments);
}

void battery_note(struct battery *battery, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(battery, "", format, arguments);
    va_end(arguments);
}

static void part_add(char *part, size_t size, const char *format, va_list arguments)
{
    size_t at = strlen(part);

    if (at && at + 3 < size)
        at += (size_t)snprintf(part + at, size - at, ", ");
    vsnprintf(part + at, size - at, format, arguments);
}

#define PART(name)                                                        \
    void battery_##name(struct battery *battery, const char *format, ...) \
    {                                                                     \
        va_list arguments;                                                \
                                                                          \
        va_start(arguments, format);                                      \
        part_add(battery->name, sizeof battery->name, format, arguments); \
        va_end(arguments);                                                \
    }
PART(held)
PART(injected)
PART(checked)

int battery_end(struct battery *battery)
{
    char result[64] = "ok";

    if (battery->failures)
        snprintf(result, sizeof result, "FAILED (%u)", battery->failures);
    printf("battery %s%s%s: held %s; injected %s; checked %s; %s in %.0f s, OKV_TEST_SEED=%" PRIu64
           "\n",
           battery->name, battery->is_long ? " long" : "", battery->weak ? " weak" : "",
           battery->held, battery->injected, battery->checked, result,
           (double)(okv_clock_ns() - battery->begin_ns) / 1e9, battery->seed);
    battery->ended = true;
    return battery->failures ? 1 : 0;
}

void battery_sleep(double seconds)
{
    time_t whole = (time_t)seconds;
    struct timespec time = {whole, (long)((seconds - (double)whole) * 1e9)};

    while (nanosleep(&time, &time))
        ;
}

bool battery_is_late(uint64_t from_ns, uint64_t to_ns, double seconds)
{
    double late = (double)(to_ns - from_ns) - seconds * 1e9 - pace_ms(SLACK_MS) * 1e6;

    if (late <= 0)
        return false;
    battery_sleep(STALL_TOLD_SECONDS);
    return late > STALL_FACTOR * (double)stalls_between(from_ns, to_ns);
}

void battery_await_promise(uint64_t from_ns, double seconds)
{
    do
        battery_sleep(0.05);
    while (!battery_is_late(from_ns, okv_clock_ns(), seconds));
}
