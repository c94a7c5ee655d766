#include "conf/written.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "conf/rules.h"

void written_add(struct conf *conf, const char *value, struct str text)
{
	size_t count = conf->written_count;

	if ((count & (count - 1)) == 0) /* the room doubles */
		conf->written = xrealloc(conf->written,
		                         (count ? count * 2 : 1) * sizeof(*conf->written));
	conf->written[conf->written_count++] =
		(struct conf_written){ value, xstrndup(text.data, text.length) };
}

const char *written_find(const struct conf *conf, const char *value)
{
	for (size_t i = 0; i < conf->written_count; i++)
		if (conf->written[i].value == value)
			return conf->written[i].text;
	return NULL;
}

void written_free(struct conf *conf)
{
	for (size_t i = 0; i < conf->written_count; i++)
		free(conf->written[i].text);
	free(conf->written);
}

void written_escape(struct str text, bool late, struct buf *out)
{
	for (size_t i = 0; i < text.length; i++) {
		struct str rest = { text.data + i, text.length - i };
		if (str_starts(rest, "${")) {
			struct str tail, name = str_cut((struct str){ rest.data + 2, rest.length - 2 },
			                                '}', &tail);
			if (!late || !tail.data || !rule_is_late(name))
				buf_append_char(out, '$');
		}
		buf_append_char(out, text.data[i]);
	}
}
