#include "../cmocka_all.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "conf/conf.h"

static struct conf *conf_of(const char *const *names)
{
	char path[] = "/tmp/cotenant-align-XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fdopen(fd, "w");
	struct buf problems = BUF_INIT;

	fprintf(file, "models:\n");
	for (; *names; names++)
		fprintf(file, "  %s: {engine: command, cmd: \"x --port ${PORT}\", footprint: 1GiB}\n", *names);
	fclose(file);
	struct conf *conf = conf_load(path, &problems);
	unlink(path);
	if (!conf)
		print_error("%s", buf_cstr(&problems));
	assert_non_null(conf);
	buf_release(&problems);
	return conf;
}

static bool nobody(void *ctx, size_t index)
{
	(void)ctx;
	(void)index;
	return false;
}

static bool everybody(void *ctx, size_t index)
{
	(void)ctx;
	(void)index;
	return true;
}

static void an_index_means_one_model(void **state)
{
	struct conf *first = conf_of((const char *[]){ "a", "b", "c", NULL });
	struct conf *second = conf_of((const char *[]){ "d", "c", "a", NULL });
	struct buf text = BUF_INIT;
	(void)state;

	conf_align(second, first, nobody, NULL);
	assert_int_equal(second->model_count, 4);
	assert_string_equal(second->models[0].name, "a");
	assert_true(second->models[1].absent);
	assert_string_equal(second->models[2].name, "c");
	assert_string_equal(second->models[3].name, "d");
	assert_int_equal(conf_resolve(second, STR("b"), NULL), -1);
	assert_int_equal(conf_resolve(second, STR("d"), NULL), 3);
	conf_print_json(second, &text);
	assert_null(strstr(buf_cstr(&text), "\"b\""));
	buf_release(&text);
	conf_free(first);
	conf_free(second);
}

static void a_row_is_taken_again_only_when_free(void **state)
{
	struct conf *first = conf_of((const char *[]){ "a", "b", NULL });
	struct conf *second = conf_of((const char *[]){ "a", NULL });
	struct conf *third = conf_of((const char *[]){ "a", "new", NULL });
	struct conf *again = conf_of((const char *[]){ "a", "new", NULL });
	(void)state;

	conf_align(second, first, nobody, NULL);
	conf_align(third, second, everybody, NULL);
	assert_int_equal(conf_resolve(third, STR("new"), NULL), 2);
	conf_align(again, second, nobody, NULL);
	assert_int_equal(conf_resolve(again, STR("new"), NULL), 1);
	assert_int_equal(again->model_count, 2);
	conf_free(first);
	conf_free(second);
	conf_free(third);
	conf_free(again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_index_means_one_model),
		cmocka_unit_test(a_row_is_taken_again_only_when_free),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
