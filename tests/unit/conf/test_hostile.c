#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"

static void assert_refused(const char *what)
{
	struct buf said = BUF_INIT;
	struct conf *conf = files_load(&said);

	if (!strstr(buf_cstr(&said), what))
		print_error("said: %s\nwanted: %s\n", buf_cstr(&said), what);
	assert_non_null(strstr(buf_cstr(&said), what));
	assert_null(conf);
	buf_release(&said);
}

static void assert_text_refused(const char *text, const char *what)
{
	files_write(text, strlen(text));
	assert_refused(what);
}

static void deep_nesting_is_refused_at_its_place(void **state)
{
	struct buf text = BUF_INIT;
	(void)state;

	for (int i = 0; i < 100000; i++)
		buf_append_char(&text, '[');
	files_write(text.data, buf_length(&text));
	assert_refused("c.yaml:1:17: error: nested too deep");
	buf_release(&text);
}

static void an_alias_bomb_never_grows(void **state)
{
	(void)state;
	assert_text_refused("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
	                    "c.yaml:1:4: error: anchors (&)");
	assert_text_refused("listen: *a\n", "c.yaml:1:9: error: anchors (&)");
	assert_text_refused("listen: !!python/object x\n", "c.yaml:1:9: error: anchors (&)");
	assert_text_refused("x-a: {<<: *b}\n", "error: anchors (&)");
}

static void a_huge_scalar_is_refused(void **state)
{
	struct buf text = BUF_INIT;
	(void)state;

	buf_append_str(&text, STR("listen: "));
	for (int i = 0; i < 65537; i++)
		buf_append_char(&text, 'x');
	files_write(text.data, buf_length(&text));
	assert_refused("c.yaml:1:9: error: too long: more than 64 KiB in one value");
	buf_release(&text);
}

static void too_many_values_are_refused(void **state)
{
	struct buf text = BUF_INIT;
	(void)state;

	for (int i = 0; i < 200001; i++)
		buf_append_str(&text, STR("- a\n"));
	files_write(text.data, buf_length(&text));
	assert_refused("error: too many values");
	buf_release(&text);
}

static void a_huge_file_is_refused(void **state)
{
	(void)state;
	files_write("", 0);
	assert_int_equal(truncate("c.yaml", (16 << 20) + 1), 0);
	assert_refused("c.yaml: error: is larger than 16 MiB");
}

static void bytes_that_are_no_text_are_refused(void **state)
{
	(void)state;
	files_write("listen: a\0b\n", 12);
	assert_refused("c.yaml:1:10: error: not readable as text");
	assert_text_refused("a: 1\nb: \xFF\n", "c.yaml:2:4: error: not readable as text");
	assert_text_refused("a: \"x\\0y\"\n", "c.yaml:1:4: error: a NUL character");
	assert_text_refused("a: \x1B[2J\n", "c.yaml:1:4: error: not readable as text");
	files_write("\xFF\xFE\x61\x00", 4);
	assert_refused("c.yaml:1:1: error: not readable as text");
}

static void control_bytes_do_not_reach_the_terminal(void **state)
{
	(void)state;
	assert_text_refused("\"a\\e[31m\\n\": 1\n", "c.yaml:1:1: error: unknown key 'a?[31m?'");
}

static void what_is_no_plain_file_is_refused_without_waiting(void **state)
{
	struct buf said = BUF_INIT;
	(void)state;

	assert_null(conf_load("/", &said));
	assert_string_equal(buf_cstr(&said), "/: error: is a directory; try: -f with the path of a YAML file\n");
	buf_consume(&said, buf_length(&said));
	assert_int_equal(mkfifo("pipe", 0600), 0);
	assert_null(conf_load("pipe", &said));
	assert_string_equal(buf_cstr(&said), "pipe: error: is not a plain file; try: -f with the path of a YAML file\n");
	unlink("pipe");
	buf_consume(&said, buf_length(&said));
	assert_null(conf_load("nothing", &said));
	assert_string_equal(buf_cstr(&said),
	                    "nothing: error: cannot be read: No such file or directory; try: -f with the path of a YAML file\n");
	buf_release(&said);
}

static void a_byte_order_mark_is_no_error(void **state)
{
	struct buf said = BUF_INIT;
	struct conf *conf = files_load_text("\xEF\xBB\xBFmodels: {m: {file: m.gguf}}\n", &said);
	(void)state;

	assert_non_null(conf);
	conf_free(conf);
	buf_release(&said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deep_nesting_is_refused_at_its_place),
		cmocka_unit_test(an_alias_bomb_never_grows),
		cmocka_unit_test(a_huge_scalar_is_refused),
		cmocka_unit_test(too_many_values_are_refused),
		cmocka_unit_test(a_huge_file_is_refused),
		cmocka_unit_test(bytes_that_are_no_text_are_refused),
		cmocka_unit_test(control_bytes_do_not_reach_the_terminal),
		cmocka_unit_test(what_is_no_plain_file_is_refused_without_waiting),
		cmocka_unit_test(a_byte_order_mark_is_no_error),
	};

	return cmocka_run_group_tests_name("conf, hostile files", tests, files_setup, files_teardown);
}
