#include "client/cli/stats.h"

#include <okv_admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/item_json.h"
#include "shared/base/printable.h"

int cli_fetch_stat(okv *handle, const char *command, char **text)
{
    size_t size = 16384;

    for (;;) {
        size_t length = 0;
        char *buffer = malloc(size);
        if (!buffer)
            return OKV_ENOMEM;
        int rc = command ? okv_admin(handle, command, buffer, size, &length)
                         : okv_stat(handle, buffer, size, &length);
        if (rc == OKV_OK) {
            *text = buffer;
            return OKV_OK;
        }
        free(buffer);
        if (rc != OKV_ETOOSMALL)
            return rc;
        /* The text grows while it is asked for again. */
        size = length + 256;
    }
}

bool cli_stat_number(const char *text, const char *name, int base, uint64_t *out)
{
    size_t length = strlen(name);

    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, name, length) == 0 && line[length] == ' ') {
            *out = strtoull(line + length + 1, NULL, base);
            return true;
        }
    }
    return false;
}

char *cli_json_text(const char *text)
{
    size_t length = strlen(text);
    char *copy = malloc(OKV_PRINTABLE_MAX * length + 1);
    json_t *whole = json_string(text); /* NULL unless it is UTF-8 */

    if (copy && whole)
        memcpy(copy, text, length + 1);
    else if (copy)
        copy[okv_printable_copy(text, length, true, copy)] = '\0';
    json_decref(whole);
    return copy;
}

json_t *cli_json_id(uint64_t id)
{
    return json_sprintf("%016llx", (unsigned long long)id);
}

int cli_print_json(const char *command, const char *what, json_t *root)
{
    bool is_printed = root && cli_json_dump(root, JSON_INDENT(2), stdout) == 0;

    json_decref(root);
    if (!is_printed && !ferror(stdout)) {
        fprintf(stderr, "okv: %s: cannot make JSON of %s: try it without --json\n", command, what);
        return CLI_FAILED;
    }
    putchar('\n');
    return CLI_DONE;
}

static int compare_samples(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

void cli_samples_sort(uint64_t *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare_samples);
}

uint64_t cli_percentile(const uint64_t *samples, size_t count, double percent)
{
    size_t rank = (size_t)((double)count * percent / 100.0);
    return samples[rank < count ? rank : count - 1];
}
