#include "api/argv.h"

#include <stdlib.h>

#include "api/value.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "conf/split.h"
#include "conf/written.h"
#include "engine/redactor.h"

static struct conf_strings shown_of(const struct conf *conf, const struct conf_strings *words)
{
	struct conf_strings shown = { xcalloc(words->count + 1, sizeof(char *)), words->count };
	bool is_secret = false;

	for (size_t i = 0; i < words->count; i++) {
		const char *written = written_find(conf, words->items[i]);
		struct buf word = BUF_INIT;
		redact_word(written ? written : words->items[i], &is_secret, &word);
		shown.items[i] = xstrdup(buf_cstr(&word));
		buf_release(&word);
	}
	return shown;
}

static void release(struct conf_strings *shown)
{
	for (size_t i = 0; i < shown->count; i++)
		free(shown->items[i]);
	free(shown->items);
}

json_t *argv_json(const struct conf *conf, const struct conf_strings *words)
{
	struct conf_strings shown = shown_of(conf, words);
	json_t *array = json_array();

	for (size_t i = 0; i < shown.count; i++)
		json_array_append_new(array, json_lossy(str_from(shown.items[i])));
	release(&shown);
	return array;
}

json_t *argv_line_json(const struct conf *conf, const struct conf_strings *words)
{
	struct conf_strings shown = shown_of(conf, words);
	struct buf line = BUF_INIT;

	if (words->count)
		split_join(&shown, &line);
	json_t *json = words->count ? json_lossy(buf_str(&line)) : json_null();
	buf_release(&line);
	release(&shown);
	return json;
}
