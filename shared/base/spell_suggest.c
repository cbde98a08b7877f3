#include "shared/base/spell_suggest.h"

#include <stdio.h>
#include <string.h>

#define WORD_MAX 31

/* What argp adds to every parser. */
static const struct argp_option standard[] = {
    {.name = "help"}, {.name = "usage"}, {.name = "version"}, {.name = NULL}};

size_t okv_spell_distance(const char *from, const char *to)
{
    size_t length = strlen(to), row[WORD_MAX + 1];

    if (length > WORD_MAX)
        return OKV_SPELL_DISTANCE_MAX + 1;
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

/* One word among the options of a parser and its children. */
struct search {
    const char *name;                /* of a long one, */
    int letter;                      /* or 0 */
    const struct argp_option *known; /* that it names, or begins, as is enough for getopt_long(3) */
    const char *nearest;
    size_t least;
};

static void search_options(struct search *search, const struct argp_option *options)
{
    size_t length = strlen(search->name);

    for (; options && (options->name || options->key || options->doc); options++) {
        if (search->letter && options->key == search->letter)
            search->known = options;
        if (!options->name || length == 0)
            continue;
        if (strncmp(options->name, search->name, length) == 0 &&
            (!search->known || options->name[length] == '\0'))
            search->known = options;
        size_t edits = okv_spell_distance(search->name, options->name);
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

const char *okv_spell_option(const struct argp *parser, const char *name)
{
    struct search search = {.name = name, .least = OKV_SPELL_DISTANCE_MAX + 1};

    search_parser(&search, parser);
    return search.nearest;
}

/* Of a word of a command line: "" for one that is no long option. */
static void take_name(const char *word, char name[WORD_MAX + 1])
{
    size_t length = strcspn(word, "=");

    name[0] = '\0';
    if (strncmp(word, "--", 2) != 0 || length - 2 > WORD_MAX)
        return;
    memcpy(name, word + 2, length - 2);
    name[length - 2] = '\0';
}

/* Whether the word after it is its value. */
static bool takes_next(const struct argp_option *option, const char *word)
{
    bool has_value = word[1] == '-' ? strchr(word, '=') != NULL : word[2] != '\0';

    return option && option->arg && !(option->flags & OPTION_ARG_OPTIONAL) && !has_value;
}

/* Searches for an option as it is on a command line. `name` has room for WORD_MAX + 1. */
static struct search search_word(const struct argp *parser, const char *word, char *name)
{
    take_name(word, name);
    struct search search = {.name = name, .least = OKV_SPELL_DISTANCE_MAX + 1};
    search.letter = word[1] == '-' ? 0 : word[1];
    search_parser(&search, parser);
    search_options(&search, standard);
    return search;
}

const struct argp_option *okv_spell_known(const struct argp *parser, const char *word,
                                          bool *takes_next_word)
{
    char name[WORD_MAX + 1];
    struct search search = search_word(parser, word, name);

    *takes_next_word = takes_next(search.known, word);
    return search.known;
}

bool okv_spell_hint(const struct argp *parser, unsigned flags, int argc, char **argv,
                    char text[OKV_SPELL_HINT_TEXT])
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        char name[WORD_MAX + 1];
        bool is_option = argv[i][0] == '-' && argv[i][1] != '\0';
        if (!is_option && flags & ARGP_IN_ORDER)
            return false; /* the rest is another parser's */
        if (!is_option)
            continue;
        struct search search = search_word(parser, argv[i], name);
        if (takes_next(search.known, argv[i]))
            i++;
        if (search.known || !search.nearest)
            continue;
        snprintf(text, OKV_SPELL_HINT_TEXT, "--%s: no such option: do you mean --%s?", name,
                 search.nearest);
        return true;
    }
    return false;
}
