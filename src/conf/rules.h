#ifndef CONF_RULES_H
#define CONF_RULES_H

#include "base/str.h"

/*
 * rules - what a text of one kind may be.
 *
 * Each returns NULL where the text is fine, else "what is wrong; try: what to
 * write". The answer is a constant and never holds the text (it may be secret).
 */
const char *rule_name(struct str text);     /* of models, aliases, engines, keys: 1..200 bytes, no * */
const char *rule_pattern(struct str text);  /* a name in which * may stand */
const char *rule_host(struct str text);     /* a host name or address, without port */
const char *rule_origin(struct str text);   /* http(s)://host[:port] */
const char *rule_url(struct str text);      /* http://host[:port], of a server that runs elsewhere */
const char *rule_route(struct str text);    /* "POST /path" */
const char *rule_path(struct str text);     /* "/path" of a URL */
const char *rule_variable(struct str text); /* of an environment */
const char *rule_macro(struct str text);
const char *rule_key(struct str text);      /* a secret that fits a header */
const char *rule_hours(struct str text);    /* "03:00-05:00" */

const char *rule_says(struct str text);     /* words with * between them */

/* The macros that only the engine's start can fill in. */
bool rule_is_late(struct str macro);

#endif
