/* Items as JSON: an object in each line. A member whose bytes are no UTF-8 has them in base64, and
 * a name that ends with _base64. */
#ifndef OKV_CLIENT_CLI_ITEM_JSON_H
#define OKV_CLIENT_CLI_ITEM_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The objects below are the caller's; NULL: no memory, which cli_print_json_line() reports. */

/* With the member key. */
json_t *cli_json_key(const void *key, size_t length);
/* With the members key, value and version. */
json_t *cli_json_item(const void *key, size_t key_length, const void *value, size_t value_length,
                      uint64_t version);
/* Adds a member to *object, and takes `value` over. Without memory *object, or `value`, is NULL,
 * and *object is NULL then. */
void cli_json_add(json_t **object, const char *name, json_t *value);
/* A time to live in ms; null for OKV_TTL_NONE. */
json_t *cli_json_ttl(int64_t ttl_ms);

/* json_dumpf(), but on a terminal that is standard output everything but ASCII is escaped as JSON
 * has it, so that okv_printable_stream() leaves it as it is. */
int cli_json_dump(const json_t *root, size_t flags, FILE *stream);
/* Prints the object in a line, and takes it over. Returns CLI_DONE, or CLI_FAILED after printing
 * why; an error of standard output is left to cli_output_end(). */
int cli_print_json_line(const char *command, json_t *object);

#endif
