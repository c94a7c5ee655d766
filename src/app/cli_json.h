#ifndef APP_CLI_JSON_H
#define APP_CLI_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * cli_json - reading the daemon's answers without trusting them: what is
 * missing or of another type is "" or 0.
 */
const char *json_text(const json_t *object, const char *key);
int64_t json_int(const json_t *object, const char *key);
double json_real_of(const json_t *object, const char *key);
bool json_yes(const json_t *object, const char *key);

/* To stdout, indented; takes over the reference. Always CLI_DONE. */
int json_print(json_t *value);

/* "12 s ago", "in 3 m", "never" for 0. Returns `out`. */
enum { JSON_WHEN_BYTES = 40 };
const char *json_when(char out[JSON_WHEN_BYTES], int64_t at_ms);

#endif
