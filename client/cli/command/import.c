/* okv import: puts lines of text, many at a time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/line.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/tsv.h"
#include "shared/base/clock.h"

#define IMPORT_DEPTH 32
/* A file of the wrong kind has as many bad lines as lines. */
#define BAD_LINES_SHOWN 20
/* okv_poll() moves deadlines on, so that waiting is cut into pieces. */
#define WAIT_MS 100

/* One put and the line it was made from. */
struct import_slot {
    char *line; /* cli_line_read()'s */
    size_t size;
    uint64_t number;
    struct tsv_item item;
    bool busy;           /* under way, or waiting to be submitted again */
    bool alone;          /* no other put was under way when it was submitted */
    bool again;          /* its first outcome is unknown */
    uint64_t reconnects; /* the handle's counters, when it was submitted */
    uint64_t timeouts;
};

struct import {
    struct cli *cli;
    uint64_t depth;
    char *file;     /* NULL, or "-": standard input */
    FILE *input;    /* that has the lines */
    size_t longest; /* line */
    struct import_slot *slots;
    uint32_t *free_slots; /* a stack of indexes */
    uint32_t free_count;
    uint32_t *again; /* a stack of those that wait until others release memory */
    uint32_t again_count;
    uint64_t boot_id; /* of the server's start, as the import began */
    uint64_t line;    /* number of the line read last */
    uint64_t imported;
    uint64_t bad;
    uint64_t expired; /* lines whose time has passed */
    bool failed;      /* something said why; no more lines are to be read */
    struct progress progress;
};

static const struct okv_option import_options[] = {
    {"depth", 0, "D", .help = "Keep D puts in flight (32)",
     CLI_NUMBER(struct import, depth, 1, OKV_DEPTH_MAX_OPERATIONS)},
    {0},
};

static void report_bad(struct import *import, uint64_t number, const char *what)
{
    if (import->bad++ >= BAD_LINES_SHOWN)
        return;
    progress_clear(&import->progress);
    fprintf(stderr, "okv: import: line %llu: %s\n", (unsigned long long)number, what);
}

/* A failure that all following lines would meet too. */
static void report_fatal(struct import *import, const struct import_slot *slot, int code)
{
    if (import->failed)
        return;
    import->failed = true;
    progress_clear(&import->progress);
    fprintf(stderr, "okv: import: stopped at line %llu\n", (unsigned long long)slot->number);
    cli_fail(import->cli, "import", slot->item.key, slot->item.key_length, code);
}

/* Large values are locked in memory while their puts are under way. At the limit on locked memory a
 * put waits until another has ended. */
static bool others_are_in_the_way(const struct import_slot *slot, int code)
{
    return (code == OKV_EPERM || code == OKV_ENOMEM) && !slot->alone;
}

/* A lost connection leaves puts with an unknown outcome. Repeating one is safe: no other put of the
 * same key was submitted since, and the first can no longer be applied. One whose deadline has
 * passed may still be applied, even after a later put of its key. */
static bool is_worth_another(const struct import *import, struct import_slot *slot, int code)
{
    struct okv_counters counters;

    if (code != OKV_EUNKNOWN || slot->again)
        return false;
    okv_counters(import->cli->handle, &counters);
    slot->again = counters.reconnects != slot->reconnects && counters.timeouts == slot->timeouts;
    return slot->again;
}

/* Earlier items may be lost: the server does not report it. */
static void check_restart(struct import *import)
{
    struct okv_info info;

    okv_info(import->cli->handle, &info);
    if (info.boot_id == import->boot_id || import->failed)
        return;
    import->failed = true;
    progress_clear(&import->progress);
    fprintf(
        stderr,
        "okv: import: the server was restarted before line %llu: without --data it has lost what "
        "was imported: import again from the beginning\n",
        (unsigned long long)import->line);
}

static void finish_slot(struct import *import, uint32_t index, int code)
{
    struct import_slot *slot = &import->slots[index];

    if (others_are_in_the_way(slot, code) || is_worth_another(import, slot, code)) {
        import->again[import->again_count++] = index;
        return;
    }
    slot->busy = false;
    import->free_slots[import->free_count++] = index;
    if (code == OKV_OK)
        import->imported++;
    else if (code == OKV_EVALUESIZE || code == OKV_EKEYSIZE || code == OKV_ETTL)
        report_bad(import, slot->number, okv_strerror(code));
    else
        report_fatal(import, slot, code);
}

static int submit_put(struct import *import, uint32_t index, int64_t ttl_ms)
{
    const struct tsv_item *item = &import->slots[index].item;
    const struct okv_command put = {.kind = OKV_PUT,
                                    .flags = ttl_ms ? OKV_WITH_TTL : 0,
                                    .tag = index,
                                    .key = item->key,
                                    .key_length = item->key_length,
                                    .value = item->value,
                                    .value_length = item->value_length,
                                    .ttl_ms = ttl_ms};

    return okv_submit(import->cli->handle, &put, 1, NULL);
}

/* The item would have expired by now. */
static void leave_out(struct import *import, uint32_t index)
{
    import->slots[index].busy = false;
    import->free_slots[import->free_count++] = index;
    import->expired++;
}

/* Submits the put of a slot, unless the handle has no room for it: OKV_EAGAIN. */
static int submit_slot(struct import *import, uint32_t index)
{
    struct import_slot *slot = &import->slots[index];
    const struct tsv_item *item = &slot->item;
    uint32_t others = okv_pending(import->cli->handle);
    struct okv_counters counters;
    int64_t ttl_ms = 0;

    if (item->expires_at_ms) {
        ttl_ms = item->expires_at_ms - (int64_t)okv_clock_wall_ms();
        if (ttl_ms <= 0) {
            leave_out(import, index);
            return OKV_OK;
        }
    }
    okv_counters(import->cli->handle, &counters);
    slot->reconnects = counters.reconnects;
    slot->timeouts = counters.timeouts;
    slot->busy = true;
    slot->alone = others == 0;
    int rc = submit_put(import, index, ttl_ms);
    if (rc == OKV_EAGAIN && others > 0)
        return rc;
    if (rc != OKV_OK)
        finish_slot(import, index, rc);
    return OKV_OK;
}

/* Submits up to `count` puts again, and at least one when nothing else is under way. */
static void submit_again(struct import *import, uint32_t count)
{
    if (count == 0 && okv_pending(import->cli->handle) == 0)
        count = 1;
    for (; count > 0 && import->again_count > 0 && !import->failed; count--) {
        uint32_t index = import->again[--import->again_count];
        if (submit_slot(import, index) == OKV_EAGAIN) {
            import->again[import->again_count++] = index;
            return;
        }
    }
}

/* Takes what has ended. Returns how many slots are free again, or -1 when the handle failed. */
static int take_results(struct import *import)
{
    struct okv_result results[32];
    int ended = 0;

    int count = okv_poll(import->cli->handle, results, 32);
    if (count < 0) {
        if (!import->failed) {
            progress_clear(&import->progress);
            cli_fail(import->cli, "import", NULL, 0, count);
        }
        import->failed = true;
        return -1;
    }
    check_restart(import);
    for (int i = 0; i < count; i++) {
        uint32_t waiting = import->again_count;
        finish_slot(import, (uint32_t)results[i].tag, results[i].status);
        ended += import->again_count == waiting;
    }
    return ended;
}

/* Waits for at least one put to end, unless the handle fails. */
static void collect(struct import *import)
{
    for (;;) {
        int ended = take_results(import);
        if (ended < 0)
            return;
        submit_again(import, (uint32_t)ended);
        if (ended > 0 || import->failed)
            return;
        okv_wait(import->cli->handle, WAIT_MS);
    }
}

/* After a failure, waits for the puts that are under way: they count, and a connection says goodbye
 * only with a request that it has left. Each ends by its deadline. */
static void drain(struct import *import)
{
    while (okv_pending(import->cli->handle) > 0 && take_results(import) >= 0)
        okv_wait(import->cli->handle, WAIT_MS);
}

/* Puts that are under way together may be applied in any order, so a key waits
 * for the put of the same key before it: the last line wins. */
static bool key_is_busy(const struct import *import, const struct tsv_item *item)
{
    for (uint32_t i = 0; i < import->depth; i++) {
        const struct import_slot *slot = &import->slots[i];
        if (slot->busy && slot->item.key_length == item->key_length &&
            memcmp(slot->item.key, item->key, item->key_length) == 0)
            return true;
    }
    return false;
}

/* Submits the put of a slot that was taken, which finish_slot() gives back. */
static void submit(struct import *import, uint32_t index)
{
    while (!import->failed && key_is_busy(import, &import->slots[index].item))
        collect(import);
    while (!import->failed && submit_slot(import, index) == OKV_EAGAIN)
        collect(import);
}

/* Reads one line into a free slot and submits it. False at the end of input. */
static bool import_line(struct import *import)
{
    uint32_t index = import->free_slots[import->free_count - 1];
    struct import_slot *slot = &import->slots[index];

    errno = 0;
    ssize_t length = cli_line_read(import->input, &slot->line, &slot->size, '\n', import->longest);
    /* A signal or an error within a line leaves a part of it. */
    if (length < 0 || ferror(import->input)) {
        if (!feof(import->input) && !cli_interrupted()) {
            progress_clear(&import->progress);
            fprintf(stderr, "okv: import: cannot read line %llu of %s: %s\n",
                    (unsigned long long)import->line + 1,
                    import->cli->took_stdin ? "stdin" : import->file,
                    errno == E2BIG ? "it is longer than an item may be" : strerror(errno));
            import->failed = true;
        }
        return false;
    }
    slot->number = ++import->line;
    size_t mark = import->line == 1 ? tsv_mark_length(slot->line, (size_t)length) : 0;
    const char *wrong = tsv_parse(slot->line + mark, (size_t)length - mark, &slot->item);
    if (wrong) {
        report_bad(import, slot->number, wrong);
        return true;
    }
    import->free_count--;
    slot->again = false;
    submit(import, index);
    return true;
}

static int import_all(struct import *import)
{
    while (!import->failed && !cli_interrupted() && import_line(import)) {
        while ((import->free_count == 0 || import->again_count > 0) && !import->failed)
            collect(import);
        progress_show(&import->progress, import->imported);
    }
    while ((okv_pending(import->cli->handle) > 0 || import->again_count > 0) && !import->failed)
        collect(import);
    drain(import);
    check_restart(import);

    progress_clear(&import->progress);
    if (import->bad > BAD_LINES_SHOWN)
        fprintf(stderr, "okv: import: and %llu more bad line%s\n",
                (unsigned long long)(import->bad - BAD_LINES_SHOWN),
                cli_s(import->bad - BAD_LINES_SHOWN));
    printf("imported %llu item%s", (unsigned long long)import->imported, cli_s(import->imported));
    if (import->expired > 0)
        printf(", and left out %llu whose time has passed", (unsigned long long)import->expired);
    printf("\n");
    if (import->bad > 0)
        fprintf(stderr, "okv: import: left out %llu bad line%s: correct %s and import again\n",
                (unsigned long long)import->bad, cli_s(import->bad),
                import->bad == 1 ? "it" : "them");
    if (cli_interrupted())
        fprintf(stderr,
                "okv: import: interrupted after line %llu: the lines that follow were not "
                "imported\n",
                (unsigned long long)import->line);
    int status = cli_output_end("import");
    return import->failed || import->bad > 0 || cli_interrupted() ? CLI_FAILED : status;
}

/* Makes room for the puts, imports, and releases it. */
static int run(struct import *import)
{
    struct cli *cli = import->cli;
    struct okv_info info;
    int status;

    cli_interrupt_catch(true);
    progress_init(&import->progress, isatty(STDERR_FILENO));
    okv_info(cli->handle, &info);
    import->boot_id = info.boot_id;
    import->longest = CLI_LINE_MAX(OKV_KEY_MAX_BYTES, info.max_value);
    import->slots = calloc(import->depth, sizeof *import->slots);
    import->free_slots = calloc(import->depth, sizeof *import->free_slots);
    import->again = calloc(import->depth, sizeof *import->again);
    if (!import->slots || !import->free_slots || !import->again) {
        status = cli_fail(cli, "import", NULL, 0, OKV_ENOMEM);
        goto free_slots;
    }
    for (uint32_t i = 0; i < import->depth; i++)
        import->free_slots[import->free_count++] = i;
    status = import_all(import);

free_slots:
    /* Puts that are still under way after a failure use the lines until then. */
    cli_disconnect(cli);
    for (uint32_t i = 0; import->slots && i < import->depth; i++)
        free(import->slots[i].line);
    free(import->again);
    free(import->free_slots);
    free(import->slots);
    return status;
}

int cli_import(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = import_options,
        .most = 1,
        .arguments = {offsetof(struct import, file)},
        .unexpected = "unexpected argument '%s': give one FILE, or none for stdin",
        .args_doc = "[FILE]",
        .doc =
            "Store the items of FILE, or without it or with - of standard input: one KEY TAB VALUE "
            "a line, or KEY TAB VALUE TAB TIME for one that expires then, in ms since 1970.\v"
            "In keys and values a tab is written \\t, a newline \\n, a carriage return \\r and a "
            "backslash \\\\, as `okv export` writes them. Lines whose time has passed are left "
            "out, and bad ones, which are reported. When a key is there more than once, the last "
            "line wins. A connection that is lost is made again; a server that was restarted "
            "meanwhile "
            "ends the import, as what it had is gone, unless it has --data.\n\n"
            "Examples:\n  okv import items.tsv\n  zcat items.tsv.gz | okv import\n"
            "  okv -s local:///old.sock export | okv -s local:///new.sock import"};
    struct import import = {.cli = cli, .depth = IMPORT_DEPTH};
    int status = cli_read(&parser, argc, argv, &import);
    if (status != CLI_DONE)
        return status;
    cli->took_stdin = !import.file || strcmp(import.file, "-") == 0;
    import.input = cli->took_stdin ? stdin : fopen(import.file, "rb");
    if (!import.input) {
        fprintf(stderr, "okv: import: cannot read '%s': %s\n", import.file, strerror(errno));
        return CLI_FAILED;
    }
    status = cli_connect(cli, (uint32_t)import.depth);
    if (status == CLI_DONE)
        status = run(&import);
    if (!cli->took_stdin)
        fclose(import.input);
    return status;
}
