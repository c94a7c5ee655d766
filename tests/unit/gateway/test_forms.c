#include "world.h"

#define FIELD(name, value) "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define BODY(model) FIELD("model", model) \
	"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF\r\n--b--\r\n"

static void send_form(struct caller *caller, const char *path, const char *type, const char *body)
{
	char head[400];

	snprintf(head, sizeof(head),
	         "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n", path, type,
	         strlen(body));
	say(caller, head);
	say(caller, body);
}

#define FORM "multipart/form-data; boundary=b"

static void test_a_form_goes_to_the_model_it_names_as_it_came(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up(&world);
	send_form(caller, "/v1/audio/transcriptions", FORM, BODY("small"));
	TURN_UNTIL(&world, world.end_count == 1);
	assert_int_equal(world.ends[0].model, 1);
	const char *sent = buf_cstr(&world.last_request);
	assert_non_null(strstr(sent, "Content-Type: " FORM "\r\n"));
	assert_non_null(strstr(sent, "\r\n\r\n" BODY("small")));
	hang_up(caller);
	world_end(&world);
}

/* To OpenAI's clients a translation is a path, to whisper-server a field of the form. */
static void test_a_translation_is_a_field_to_the_engine(void **state)
{
	struct world world;

	(void)state;
	world_init(&world);
	world.models[1].engine = CONF_ENGINE_WHISPER_SERVER;
	world_open(&world);
	struct caller *caller = call_up(&world);
	send_form(caller, "/v1/audio/translations", FORM, BODY("small"));
	TURN_UNTIL(&world, world.end_count == 1);
	const char *sent = buf_cstr(&world.last_request);
	assert_true(str_starts(str_from(sent), "POST /v1/audio/transcriptions HTTP/1.1\r\n"));
	const char *body = strstr(sent, "\r\n\r\n" FIELD("translate", "true") BODY("small"));
	assert_non_null(body);
	char length[64];
	snprintf(length, sizeof(length), "Content-Length: %zu\r\n", strlen(body) - 4);
	assert_non_null(strstr(sent, length));
	hang_up(caller);
	world_end(&world);
}

/* Field before query; the query where there is no field; any path that is a form's. */
static void test_a_field_counts_more_than_the_query(void **state)
{
	struct world world;

	(void)state;
	world_begin(&world);
	struct caller *caller = call_up(&world);
	send_form(caller, "/v1/images/edits?model=chat", FORM, BODY("other"));
	TURN_UNTIL(&world, world.end_count == 1);
	assert_int_equal(world.ends[0].model, 2);
	send_form(caller, "/v1/images/edits?model=small", FORM, FIELD("prompt", "x") "--b--\r\n");
	TURN_UNTIL(&world, world.end_count == 2);
	assert_int_equal(world.ends[1].model, 1);
	/* A model in the path needs no form that can be read. */
	send_form(caller, "/upstream/small/v1/completions", FORM, "no form");
	TURN_UNTIL(&world, world.end_count == 3);
	assert_int_equal(world.ends[2].model, 1);
	hang_up(caller);
	world_end(&world);
}

static void test_a_form_that_is_none_is_refused(void **state)
{
	static const struct {
		const char *type, *body, *code;
	} rows[] = {
		{ FORM, "no form", "invalid_form" },
		{ FORM, FIELD("model", "chat"), "invalid_form" },
		{ FORM, FIELD("model", "chat") FIELD("model", "small") "--b--", "invalid_form" },
		{ "multipart/form-data", BODY("chat"), "invalid_form" },
		{ FORM, FIELD("prompt", "x") "--b--", "model_missing" },
		{ FORM, BODY("nobody"), "model_not_found" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct world world;
		world_begin(&world);
		struct caller *caller = call_up(&world);
		send_form(caller, "/v1/audio/transcriptions", rows[i].type, rows[i].body);
		TURN_UNTIL(&world, has_heard(caller, "\r\n\r\n{"));
		if (!has_heard(caller, rows[i].code))
			fail_msg("row %zu: %s", i, heard(caller));
		assert_int_equal(world.engine_requests, 0);
		hang_up(caller);
		world_end(&world);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_form_goes_to_the_model_it_names_as_it_came),
		cmocka_unit_test(test_a_translation_is_a_field_to_the_engine),
		cmocka_unit_test(test_a_field_counts_more_than_the_query),
		cmocka_unit_test(test_a_form_that_is_none_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
