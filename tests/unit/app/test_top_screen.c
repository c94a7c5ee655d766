#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/top_bar.h"
#include "app/top_line.h"
#include "app/top_screen.h"
#include "base/alloc.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
enum { OUT_MAX = 64 * 1024 };

static struct top_data *data;

static void take(void (*into)(struct top_data *data, const json_t *answer), const char *format, ...)
{
	json_error_t error;
	va_list args;

	va_start(args, format);
	json_t *answer = json_vpack_ex(&error, 0, format, args);
	va_end(args);
	if (!answer)
		fail_msg("%s", error.text);
	into(data, answer);
	json_decref(answer);
}

static json_t *model(const char *name, const char *state, int64_t measured, int running, int queued)
{
	return json_pack("{s:s, s:s, s:I, s:I, s:i, s:i, s:i, s:i}", "name", name, "state", state,
	                 "measured_bytes", (json_int_t)measured, "estimate_bytes", (json_int_t)(2 * GIB), "context",
	                 8192, "slots", 4, "running", running, "queued", queued);
}

static json_t *owner(const char *kind, const char *name, int64_t claim, int64_t measured)
{
	return json_pack("{s:s, s:s, s:I, s:I}", "kind", kind, "name", name, "claim_bytes", (json_int_t)claim,
	                 "measured_bytes", (json_int_t)measured);
}

static json_t *decision(int number, const char *text)
{
	char id[32];

	snprintf(id, sizeof(id), "1f3a90c2-%d", number);
	return json_pack("{s:s, s:s, s:I}", "id", id, "text", text, "at_ms",
	                 (json_int_t)(INT64_C(1795991040000) + number * 1000));
}

static int set_up(void **state)
{
	(void)state;
	data = xcalloc(1, sizeof(*data));
	json_t *chat = model("chat", "busy", 5 * GIB, 3, 2), *coder = model("coder", "loading", 1 * GIB, 0, 1);
	json_object_set_new(chat, "tokens_per_s", json_real(38.24));
	json_object_set_new(chat, "pinned", json_true());
	json_object_set_new(coder, "load", json_pack("{s:i, s:I, s:I, s:i}", "permille", 402, "bytes",
	                                             (json_int_t)(1300 * MIB), "total_bytes",
	                                             (json_int_t)(3 * GIB), "left_ms", 3100));
	json_t *embed = model("embed", "idle", 130 * MIB, 0, 0);
	json_object_set_new(embed, "last_used_at_ms", json_integer(INT64_C(1795991048000)));
	take(top_take_models, "{s:[o,o,o,o,o]}", "models", chat, coder, embed, model("painter", "unloaded", 0, 0, 0),
	     model("\xe5\xa3\xb0-a-very-long-name-of-a-speech-model", "failed", 0, 0, 0));
	take(top_take_memory, "{s:[{s:I,s:I}], s:[o,o,o,o,o,o]}", "pools", "size_bytes", (json_int_t)(24 * GIB),
	     "free_bytes", (json_int_t)(9 * GIB), "owners", owner("system", "baseline", 0, 1150 * MIB),
	     owner("foreign", "firefox", 0, 150 * MIB), owner("foreign", "other programs", 0, 60 * MIB),
	     owner("instance", "chat", 5 * GIB, 4900 * MIB),
	     owner("instance", "coder", 3200 * MIB, 1 * GIB), owner("instance", "embed", 140 * MIB, 130 * MIB));
	take(top_take_decisions, "{s:[o,o,o]}", "decisions",
	     decision(3, "loading coder for a request: needs 3.12 GiB, 9.01 GiB free of 12.0 GiB allowed"),
	     decision(2, "chat is ready after 6.7 s, takes 4.78 GiB"), decision(1, "loading chat by command"));
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(data);
	return 0;
}

static struct top_view view_of(int rows, int columns)
{
	return (struct top_view){ .rows = rows, .columns = columns, .utf8 = true, .selected = 1,
		                  .now_ms = INT64_C(1795991060000), .where = "" };
}

/* The picture without what erases and, with `styles`, what colours. */
static void draw(const struct top_view *view, char out[OUT_MAX])
{
	struct buf drawn = BUF_INIT;
	size_t length = 0;

	top_screen_draw(data, view, &drawn);
	for (const char *at = buf_cstr(&drawn); *at; at++) {
		if (*at == '\033') {
			at += strcspn(at, "mK");
			continue;
		}
		assert_true(length + 1 < OUT_MAX);
		out[length++] = *at;
	}
	out[length] = '\0';
	buf_release(&drawn);
}

/* The picture is as the file says; with RECORD set the file is written instead. */
static void assert_screen(const struct top_view *view, const char *name)
{
	static char drawn[OUT_MAX], wanted[OUT_MAX];
	char path[4096];

	draw(view, drawn);
	snprintf(path, sizeof(path), "%s/%s.txt", getenv("SCREENS"), name);
	FILE *file = fopen(path, getenv("RECORD") ? "w" : "r");
	assert_non_null(file);
	if (getenv("RECORD")) {
		fprintf(file, "%s\n", drawn);
	} else {
		size_t length = fread(wanted, 1, sizeof(wanted) - 1, file);
		wanted[length ? length - 1 : 0] = '\0';
		assert_string_equal(drawn, wanted);
	}
	fclose(file);
}

static void a_terminal_of_any_size_shows_what_it_should(void **state)
{
	struct top_view view = view_of(24, 80);

	(void)state;
	assert_screen(&view, "80x24");
	view = view_of(40, 120);
	assert_screen(&view, "120x40");
	view = view_of(10, 40);
	assert_screen(&view, "40x10");
	view = view_of(0, 100);
	assert_screen(&view, "plain");
}

static void a_daemon_that_is_gone_and_one_that_knows_nothing_yet(void **state)
{
	struct top_view view = view_of(10, 60);

	(void)state;
	view.lost = true;
	view.message = "load coder: no daemon answers";
	assert_screen(&view, "lost");
	memset(data, 0, sizeof(*data));
	view = view_of(10, 60);
	assert_screen(&view, "empty");
}

/* Rows, and columns of each, whatever the size; colours change nothing of it. */
static void every_size_is_filled_and_never_exceeded(void **state)
{
	static char plain[OUT_MAX], coloured[OUT_MAX];

	(void)state;
	for (int rows = TOP_ROWS_MIN; rows <= 60; rows++) {
		for (int columns = TOP_COLUMNS_MIN; columns <= 200; columns += 7) {
			struct top_view view = view_of(rows, columns);
			int lines = 1;
			draw(&view, plain);
			for (const char *c = plain; *c; c++)
				lines += *c == '\n';
			assert_int_equal(lines, rows);
			char *rest = plain, *line;
			view.colour = true;
			draw(&view, coloured);
			assert_string_equal(coloured, plain);
			while ((line = strsep(&rest, "\n")))
				assert_true(line_width_of(line) <= columns);
		}
	}
}

static void the_selected_model_is_always_on_the_screen(void **state)
{
	static char drawn[OUT_MAX];

	(void)state;
	for (int i = 0; i < 40; i++) {
		data->model[i] = data->model[2];
		snprintf(data->model[i].name, sizeof(data->model[i].name), "m%d.", i);
	}
	data->models = 40;
	for (int rows = 7; rows <= 30; rows++) {
		for (int i = 0; i < 40; i++) {
			struct top_view view = view_of(rows, 60);
			char mark[16];
			view.selected = i;
			draw(&view, drawn);
			snprintf(mark, sizeof(mark), ">m%d.", i);
			if (!strstr(drawn, mark))
				fail_msg("%s is not in:\n%s", mark, drawn);
		}
	}
}

/* Half a number is another one: a column is there whole or not at all. */
static void no_column_is_cut(void **state)
{
	static char drawn[OUT_MAX];
	(void)state;

	for (int columns = TOP_COLUMNS_MIN; columns < 80; columns++) {
		struct top_view view = view_of(0, columns);
		draw(&view, drawn);
		const char *heads = strstr(drawn, "  MODEL ");
		assert_non_null(heads);
		size_t length = strcspn(heads, "\n");
		char words[128], *rest = words;
		snprintf(words, sizeof(words), "%.*s", (int)length, heads);
		for (char *word; (word = strtok_r(rest, " ", &rest));) {
			char whole[140];
			snprintf(whole, sizeof(whole), " %s ", word);
			assert_non_null(strstr(" MODEL STATE MEMORY SLOTS QUEUE TOK/S CONTEXT ", whole));
		}
	}
}

static void every_owner_has_a_cell_and_the_cells_are_all(void **state)
{
	struct bar bar;

	(void)state;
	for (int cells = 10; cells < 300; cells++) {
		int sum = 0;
		bar_make(data, cells, &bar);
		assert_int_equal(bar.segments, 7);
		for (int i = 0; i < bar.segments; i++) {
			assert_true(bar.segment[i].cells >= 1);
			sum += bar.segment[i].cells;
		}
		assert_int_equal(sum, cells);
	}
	bar_make(data, 1, &bar); /* fewer cells than owners: it ends, and does not overflow */
	data->size_bytes = 0;
	bar_make(data, 80, &bar);
	assert_int_equal(bar.segments, 0);
}

static void more_owners_than_memory_is_no_negative_room(void **state)
{
	struct bar bar;
	int sum = 0;

	(void)state;
	data->size_bytes = 2 * GIB; /* claims of 8 GiB */
	bar_make(data, 78, &bar);
	for (int i = 0; i < bar.segments; i++) {
		assert_true(bar.segment[i].letter != '.' && bar.segment[i].letter != '-');
		sum += bar.segment[i].cells;
	}
	assert_int_equal(sum, 78);
}

static void a_name_cannot_write_to_the_terminal(void **state)
{
	struct buf out = BUF_INIT;
	struct line line = { .out = &out, .columns = 30, .utf8 = true };

	(void)state;
	line_text(&line, "a\033[2Jb\xff\xc2\x9b" "c\xe2\x80\xae" "d\xcc\x81\x7f");
	assert_string_equal(buf_cstr(&out), "a?[2Jb??c?d\xcc\x81?");
	buf_release(&out);
	line = (struct line){ .out = &out, .columns = 3, .utf8 = true };
	line_text(&line, "\xe5\xa3\xb0\xe5\xa3\xb0"); /* two wide ones: the second does not fit */
	assert_string_equal(buf_cstr(&out), "\xe5\xa3\xb0");
	assert_int_equal(line.used, 2);
	buf_release(&out);
}

static void decisions_stand_newest_first_and_once(void **state)
{
	(void)state;
	data->events = 0;
	for (int i = 0; i < 2 * TOP_EVENTS_MAX; i++) {
		json_t *one = decision(i ^ 1, "x"); /* a little out of order */
		top_take_decision(data, one);
		top_take_decision(data, one);
		json_decref(one);
	}
	assert_int_equal(data->events, TOP_EVENTS_MAX);
	for (int i = 0; i < TOP_EVENTS_MAX; i++)
		assert_int_equal(data->event[i].number, 2 * TOP_EVENTS_MAX - 1 - i);
}

static void answers_of_any_shape_are_taken(void **state)
{
	static const char *const texts[] = { "{}", "[]", "{\"models\": 3, \"owners\": {}, \"pools\": [1, null, {}]}",
		                             "{\"models\": [null, {}, {\"name\": 3, \"load\": {}, \"slots\": \"x\"}]}",
		                             ("{\"owners\": [{\"kind\": \"new\", \"claim_bytes\": -5}],"
		                              " \"decisions\": [{}]}") };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		static char drawn[OUT_MAX];
		struct top_view view = view_of(24, 80);
		json_t *answer = json_loads(texts[i], 0, NULL);
		top_take_models(data, answer);
		top_take_memory(data, answer);
		top_take_decisions(data, answer);
		draw(&view, drawn);
		json_decref(answer);
	}
}

#define SCREEN_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCREEN_TEST(a_terminal_of_any_size_shows_what_it_should),
		SCREEN_TEST(a_daemon_that_is_gone_and_one_that_knows_nothing_yet),
		SCREEN_TEST(every_size_is_filled_and_never_exceeded),
		SCREEN_TEST(the_selected_model_is_always_on_the_screen),
		SCREEN_TEST(no_column_is_cut),
		SCREEN_TEST(every_owner_has_a_cell_and_the_cells_are_all),
		SCREEN_TEST(more_owners_than_memory_is_no_negative_room),
		SCREEN_TEST(a_name_cannot_write_to_the_terminal),
		SCREEN_TEST(decisions_stand_newest_first_and_once),
		SCREEN_TEST(answers_of_any_shape_are_taken),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
