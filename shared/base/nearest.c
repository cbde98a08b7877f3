#include "shared/base/nearest.h"

#include <stdio.h>
#include <string.h>

#define WORD_MAX 31

/* What argp adds to every parser. */
static const struct argp_option standard[] = {
    {.name = "help"}, {.name = "usage"}, {.name = "version"}, {.name = NULL}};

size_t okv_edits(const char *from, const char *to)
{
    size_t length = strlen(to), row[WORD_MAX + 1];

    if (length > WORD_MAX)
        return OKV_EDITS_MAX + 1;
    for (size_t i = 0; i <= length; i++)
        row[i] = i;
    for (size_t line = 1; *from; line++, from++) {
        size_t corner = row[0];
        row[0] = line;
        for (size_t i = 1; i <= length; i++) {
            size_t replaced = corner + (*from != to[i - 1]);
            size_t other = (row[i] < row[i - 1] ? row[i] : row[i - 1]) + 1;
            corner = row[i];
            row[i] = replaced < other ? replaced : other;
        }
    }
    return row[length];
}

/* Options of one parser: whether one begins with `name`, as is enough for getopt_long(3), and the
 * nearest one. */
struct search {
    const char *name;
    bool is_known;
    const char *nearest;
    size_t least;
};

static void search_options(struct search *search, const struct argp_option *options)
{
    for (; options && (options->name || options->key || options->doc); options++) {
        if (!options->name)
            continue;
        if (strncmp(options->name, search->name, strlen(search->name)) == 0)
            search->is_known = true;
        size_t edits = okv_edits(search->name, options->name);
        if (edits < search->least) {
            search->least = edits;
            search->nearest = options->name;
        }
    }
}

static void search_parser(struct search *search, const struct argp *parser)
{
    search_options(search, parser->options);
    for (const struct argp_child *child = parser->children; child && child->argp; child++)
        search_parser(search, child->argp);
}

static struct search search_for(const struct argp *parser, const char *name)
{
    struct search search = {.name = name, .least = OKV_EDITS_MAX + 1};

    search_parser(&search, parser);
    search_options(&search, standard);
    return search;
}

const char *okv_option_nearest(const struct argp *parser, const char *name)
{
    struct search search = search_for(parser, name);

    return search.nearest;
}

bool okv_options_hint(const struct argp *parser, int argc, char **argv, char text[OKV_HINT_TEXT])
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        char name[WORD_MAX + 1] = "";
        if (strncmp(argv[i], "--", 2) != 0 || strcspn(argv[i] + 2, "=") > WORD_MAX)
            continue;
        memcpy(name, argv[i] + 2, strcspn(argv[i] + 2, "="));
        struct search search = search_for(parser, name);
        if (search.is_known)
            continue;
        if (search.nearest)
            snprintf(text, OKV_HINT_TEXT, "--%s: no such option: do you mean --%s?", name,
                     search.nearest);
        return search.nearest;
    }
    return false;
}
