#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conf/split.h"
#include "files.h"

static const char catalogue[] =
	"models:\n"
	"  qwen: {file: q.gguf, aliases: [gpt-4o-mini, 'gpt-*', '*-turbo*x']}\n"
	"  llama: {file: l.gguf, aliases: ['gpt-4*', chat]}\n"
	"aliases: {fast: {models: [llama, qwen]}}\n";

static struct conf *load(const char *text)
{
	struct buf said = BUF_INIT;
	struct conf *conf = files_load_text(text, &said);

	assert_string_equal(buf_cstr(&said), "");
	buf_release(&said);
	return conf;
}

static int resolve(const struct conf *conf, const char *name)
{
	return conf_resolve(conf, str_from(name), NULL);
}

static void a_name_means_a_model_before_an_alias_before_a_pattern(void **state)
{
	struct conf *conf = load(catalogue);
	(void)state;

	assert_int_equal(resolve(conf, "qwen"), 0);
	assert_int_equal(resolve(conf, "llama"), 1);
	assert_int_equal(resolve(conf, "gpt-4o-mini"), 0);
	assert_int_equal(resolve(conf, "chat"), 1);
	assert_int_equal(resolve(conf, "fast"), 1);
	assert_int_equal(resolve(conf, "gpt-4o"), 0);
	assert_int_equal(resolve(conf, "gpt-"), 0);
	assert_int_equal(resolve(conf, "a-turbo-turbo-x"), 0);
	assert_int_equal(resolve(conf, "a-turbo-y"), -1);
	assert_int_equal(resolve(conf, "gpt"), -1);
	assert_int_equal(resolve(conf, ""), -1);
	assert_int_equal(resolve(conf, "gpt-*"), 0);
	assert_int_equal(conf_resolve(conf, (struct str){ "qwen\0", 5 }, NULL), -1);
	conf_free(conf);
}

static void an_unknown_name_hears_the_nearest(void **state)
{
	struct conf *conf = load(catalogue);
	struct buf near = BUF_INIT;
	(void)state;

	assert_int_equal(conf_resolve(conf, STR("lama"), &near), -1);
	assert_string_equal(buf_cstr(&near), "llama");
	buf_consume(&near, buf_length(&near));
	assert_int_equal(conf_resolve(conf, STR("mistral"), &near), -1);
	assert_string_equal(buf_cstr(&near), ""); /* nobody who wrote that meant any of these */
	buf_release(&near);
	conf_free(conf);
}

static void a_hostile_pattern_stays_cheap(void **state)
{
	char name[4096];
	struct conf *conf = load("models: {m: {file: m.gguf, aliases: ['*a*a*a*a*a*a*a*a*a*a*b']}}\n");
	(void)state;

	memset(name, 'a', sizeof(name));
	assert_int_equal(conf_resolve(conf, (struct str){ name, sizeof(name) }, NULL), -1);
	conf_free(conf);
}

struct reload {
	const char *yaml;
	enum conf_change change;
	const char *report;
};

static void a_reload_is_told_by_what_changed(void **state)
{
	static const char base[] = "memory: {limit: 8GiB}\n"
				   "models:\n"
				   "  a: {file: a.gguf}\n"
				   "  b: {file: b.gguf}\n";
	static const struct reload reloads[] = {
		{ "models:\n  a: {file: a.gguf}\n\n  b: {file: b.gguf}\nmemory: {limit: 8GiB}\n",
		  CONF_CHANGE_NONE, "" },
		{ "memory: {limit: 9GiB}\nmodels: {a: {file: a.gguf}, b: {file: b.gguf}}\n",
		  CONF_CHANGE_LIVE, "memory.limit: changed (at once)\n" },
		{ "memory: {limit: 8GiB}\nmodels: {a: {file: a.gguf, priority: batch}, b: {file: b.gguf}}\n",
		  CONF_CHANGE_LIVE, "models.a.priority: changed (at once)\n" },
		{ "memory: {limit: 8GiB}\nmodels: {a: {file: a.gguf, slots: 1}, b: {file: b.gguf}}\n",
		  CONF_CHANGE_MODELS, "models.a.slots: changed (a loaded model starts anew)\n" },
		{ "memory: {limit: 8GiB}\nmodels: {c: {file: c.gguf}, b: {file: b.gguf}}\n",
		  CONF_CHANGE_MODELS, "models.a: removed\nmodels.c: added\n" },
		{ "memory: {limit: 8GiB}\nlisten: 127.0.0.1:1\nmodels: {a: {file: a.gguf}, b: {file: b.gguf}}\n",
		  CONF_CHANGE_RESTART, "listen: changed (needs a restart)\n" },
		{ "memory: {limit: 8GiB}\napi_keys: [{key: abcdefgh, name: n}]\n"
		  "models: {a: {file: a.gguf}, b: {file: b.gguf}}\n",
		  CONF_CHANGE_LIVE, "api_keys: changed (at once)\n" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(reloads) / sizeof(reloads[0]); i++) {
		struct conf *old = load(base), *new = load(reloads[i].yaml);
		struct buf report = BUF_INIT;
		assert_int_equal(conf_compare(old, new, &report), reloads[i].change);
		assert_string_equal(buf_cstr(&report), reloads[i].report);
		buf_release(&report);
		conf_free(old);
		conf_free(new);
	}
}

static void another_program_under_the_same_name_is_a_change(void **state)
{
	static const char with[] = "engines: {s: {kind: llama-server, path: /a}}\n"
				   "models: {m: {engine: s, file: m.gguf}}\n";
	static const char other[] = "engines: {s: {kind: llama-server, path: /b}}\n"
				    "models: {m: {engine: s, file: m.gguf}}\n";
	struct conf *old = load(with), *new = load(other);
	(void)state;

	assert_false(conf_model_equal(&old->models[0], &new->models[0]));
	assert_int_equal(conf_model_compare(&old->models[0], &new->models[0]), CONF_CHANGE_MODELS);
	assert_int_equal(conf_compare(old, new, NULL), CONF_CHANGE_MODELS);
	conf_free(old);
	conf_free(new);
}

struct line {
	const char *line;
	const char *words; /* joined by | */
};

static void a_line_splits_as_in_a_shell_without_expansion(void **state)
{
	static const struct line lines[] = {
		{ "", "" },
		{ "  a   b\tc\n", "a|b|c" },
		{ "a 'b c' \"d e\"", "a|b c|d e" },
		{ "a\\ b '' \"\"", "a b||" },
		{ "--x='a\"b' \"c\\\"d\\e\\\\\"", "--x=a\"b|c\"d\\e\\" },
		{ "'a\\b' $HOME `x` *.c ~ a;b #c", "a\\b|$HOME|`x`|*.c|~|a;b|#c" },
		{ "x\\", "x\\" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct conf_strings words, again;
		struct buf joined = BUF_INIT, text = BUF_INIT;
		assert_null(split_words(str_from(lines[i].line), &words));
		for (size_t j = 0; j < words.count; j++)
			buf_printf(&joined, "%s%s", j ? "|" : "", words.items[j]);
		assert_string_equal(buf_cstr(&joined), lines[i].words);
		split_join(&words, &text);
		assert_null(split_words(str_from(buf_cstr(&text)), &again));
		assert_int_equal(words.count, again.count);
		for (size_t j = 0; j < words.count; j++) {
			assert_string_equal(words.items[j], again.items[j]);
			free(words.items[j]);
			free(again.items[j]);
		}
		free(words.items);
		free(again.items);
		buf_release(&joined);
		buf_release(&text);
	}
}

static void a_variable_cannot_add_an_argument(void **state)
{
	setenv("WORDS", "a b ${env.HOME} 'c", 1);
	struct conf *conf = load("models: {m: {cmd: 'x ${env.WORDS} y', args: '${PORT}'}}\n");
	(void)state;

	assert_int_equal(conf->models[0].cmd_argv.count, 3);
	assert_string_equal(conf->models[0].cmd_argv.items[1], "a b ${env.HOME} 'c");
	conf_free(conf);
}

static void the_first_place_that_has_a_file_is_taken(void **state)
{
	char *found;
	(void)state;

	files_write("", 0);
	unsetenv("COTENANT_CONFIG");
	found = conf_find("given.yaml");
	assert_string_equal(found, "given.yaml");
	free(found);
	setenv("COTENANT_CONFIG", "named.yaml", 1);
	found = conf_find(NULL);
	assert_string_equal(found, "named.yaml");
	free(found);
	unsetenv("COTENANT_CONFIG");
	assert_int_equal(rename("c.yaml", "cotenant.yaml"), 0);
	found = conf_find(NULL);
	assert_string_equal(found, "./cotenant.yaml");
	free(found);
	unlink("cotenant.yaml");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_means_a_model_before_an_alias_before_a_pattern),
		cmocka_unit_test(an_unknown_name_hears_the_nearest),
		cmocka_unit_test(a_hostile_pattern_stays_cheap),
		cmocka_unit_test(a_reload_is_told_by_what_changed),
		cmocka_unit_test(another_program_under_the_same_name_is_a_change),
		cmocka_unit_test(a_line_splits_as_in_a_shell_without_expansion),
		cmocka_unit_test(a_variable_cannot_add_an_argument),
		cmocka_unit_test(the_first_place_that_has_a_file_is_taken),
	};

	return cmocka_run_group_tests_name("conf, use", tests, files_setup, files_teardown);
}
