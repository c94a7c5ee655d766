#ifndef CONF_WRITTEN_H
#define CONF_WRITTEN_H

#include <stddef.h>

#include "base/str.h"
#include "conf/conf.h"

/*
 * written - strings that hold a value of the environment, as the file has them.
 *
 * What comes from ${env.NAME} may be secret (a key, a token in `env:`), so
 * printing shows the words of the file for such a string: nothing leaks, and
 * what was printed loads again to the same. Strings are known by their address,
 * which lives as long as the configuration.
 */
struct conf_written {
	const char *value; /* borrowed */
	char *text;        /* with $${ for what is no macro */
};

void written_add(struct conf *conf, const char *value, struct str text);
/* NULL where the string holds nothing of the environment. */
const char *written_find(const struct conf *conf, const char *value);
void written_free(struct conf *conf);

/* Write `text` so that reading gives it back: ${ becomes $${. `late`: but ${PORT} and the like stay. */
struct buf;
void written_escape(struct str text, bool late, struct buf *out);

#endif
