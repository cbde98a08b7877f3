#include "client/cli/args.h"

struct parsing {
    const struct cli_parser *parser;
    void *arguments;
};

static void *field(const struct parsing *parsing, size_t offset)
{
    return (char *)parsing->arguments + offset;
}

static error_t read_argument(const struct parsing *parsing, struct argp_state *state, char *text)
{
    const struct cli_parser *parser = parsing->parser;

    if (parser->has_rest)
        return ARGP_ERR_UNKNOWN; /* ARGP_KEY_ARGS follows */
    if (state->arg_num >= parser->most)
        return cli_usage(state, parser->unexpected, text);
    *(char **)field(parsing, parser->arguments[state->arg_num]) = text;
    return 0;
}

static error_t read_rest(const struct parsing *parsing, const struct argp_state *state)
{
    *(char ***)field(parsing, parsing->parser->arguments[0]) = state->argv + state->next;
    *(int *)field(parsing, parsing->parser->arguments[1]) = state->argc - state->next;
    return 0;
}

static error_t end(const struct parsing *parsing, struct argp_state *state)
{
    const struct cli_parser *parser = parsing->parser;

    if (state->arg_num < parser->least)
        return cli_usage(state, "%s", parser->missing);
    return parser->check ? parser->check(state, parsing->arguments) : 0;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    const struct parsing *parsing = state->input;

    cli_parse_child(key, state, *(struct cli **)parsing->arguments);
    if (key == ARGP_KEY_ARG)
        return read_argument(parsing, state, text);
    if (key == ARGP_KEY_ARGS)
        return read_rest(parsing, state);
    if (key == ARGP_KEY_END)
        return end(parsing, state);
    const struct okv_option *table = parsing->parser->options;
    const struct okv_option *option = table ? okv_option_of_key(table, key) : NULL;
    return option ? cli_read_option(option, text, parsing->arguments, state) : ARGP_ERR_UNKNOWN;
}

int cli_read(const struct cli_parser *parser, int argc, char **argv, void *arguments)
{
    struct okv_options_argp options = {.list = {{.name = NULL}}};
    struct parsing parsing = {parser, arguments};
    const struct argp argp = {
        .options = options.list, .parser = parse, .args_doc = parser->args_doc, .doc = parser->doc};

    if (parser->options)
        okv_options_argp(parser->options, &options);
    return parser->may_be_negative ? cli_parse_negative(&argp, argc, argv, &parsing)
                                   : cli_parse(&argp, 0, argc, argv, &parsing);
}
