#include "../cmocka_all.h"

#include <string.h>

#include "base/buf.h"
#include "http/multipart.h"

static struct multipart form;

/* In slices of `step` bytes: every cut of a delimiter happens. */
static bool read_form(struct str body, size_t step)
{
	multipart_init(&form, "AaB03x");
	for (size_t at = 0; at < body.length; at += step) {
		size_t left = body.length - at;
		if (!multipart_feed(&form, (struct str){ body.data + at, left < step ? left : step }))
			return false;
	}
	return multipart_end(&form);
}

#define PART(head, value) "--AaB03x\r\n" head "\r\n\r\n" value "\r\n"
#define FIELD(name, value) PART("Content-Disposition: form-data; name=\"" name "\"", value)
#define FILE_PART(bytes) \
	PART("Content-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav", bytes)
#define CLOSE "--AaB03x--\r\n"

static void the_model_is_found_however_the_body_is_cut(void **state)
{
	static const struct str bodies[] = {
		{ FIELD("model", "whisper-1") CLOSE, sizeof(FIELD("model", "whisper-1") CLOSE) - 1 },
#define AROUND FILE_PART("RIFF\0\r\n--AaB03\r\n--\r--AaB03x\n") FIELD("stream", "true") FIELD("model", "whisper-1") CLOSE
		{ AROUND, sizeof(AROUND) - 1 },
#define QUOTES PART("content-disposition:form-data; name=model", "whisper-1") CLOSE "epilogue\r\n--AaB03x\r\n"
		{ QUOTES, sizeof(QUOTES) - 1 },
	};
	(void)state;

	for (size_t i = 0; i < 3; i++)
		for (size_t step = 1; step <= bodies[i].length; step++) {
			if (!read_form(bodies[i], step))
				fail_msg("body %zu in steps of %zu: %s", i, step, form.fault);
			assert_true(form.facts.has_model);
			assert_string_equal(form.facts.model, "whisper-1");
			assert_int_equal(form.facts.stream, i == 1);
			assert_int_equal(form.offset, bodies[i].length);
		}
}

static void a_value_may_look_like_a_delimiter_s_beginning(void **state)
{
	(void)state;

	for (size_t step = 1; step < 20; step++) {
		assert_true(read_form(STR(FIELD("model", "\r\n--AaB03\r\nx\r\r") CLOSE), step));
		assert_string_equal(form.facts.model, "\r\n--AaB03\r\nx\r\r");
	}
	assert_true(read_form(STR(FIELD("model", "") CLOSE), 5));
	assert_true(form.facts.has_model);
	assert_string_equal(form.facts.model, "");
}

static void a_file_or_another_field_is_no_model(void **state)
{
	(void)state;
	assert_true(read_form(STR(PART("Content-Disposition: form-data; name=\"model\"; filename=\"m\"", "x") CLOSE), 7));
	assert_false(form.facts.has_model);
	assert_true(read_form(STR(FIELD("Model", "x") FIELD("prompt", "name=\"model\"") CLOSE), 7));
	assert_false(form.facts.has_model);
	assert_true(read_form(STR(CLOSE), 3));
}

static void what_can_be_read_in_two_ways_is_refused(void **state)
{
	static const struct {
		const char *body, *fault;
	} forms[] = {
		{ "", "it ends before" },
		{ FIELD("model", "x"), "it ends before" },
		{ "--AaB03x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nx", "it ends before" },
		{ "preamble\r\n" FIELD("model", "x") CLOSE, "it does not begin" },
		{ FIELD("model", "x") FIELD("model", "y") CLOSE, "a field comes twice" },
		{ "--AaB03x\nContent-Disposition: form-data; name=\"model\"\n\nx\n--AaB03x--\n", "something stands behind" },
		{ "--AaB03x \r\n\r\n", "something stands behind" },
		{ FIELD("model", "x") "--AaB03xy\r\n", "something stands behind" },
		{ FIELD("model", "x") "--AaB03x-\r\n", "something stands behind" },
		{ "--AaB03x\r\nX\n: y\r\n\r\n", "does not end with CRLF" },
		{ "--AaB03x\r\nX: y\rz\r\n\r\n", "does not end with CRLF" },
		{ PART(" folded", "x") CLOSE, "is no field" },
		{ PART("no field", "x") CLOSE, "is no field" },
		{ "--AaB03x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n--AaB03x--\r\n",
		  "stands where a value begins" },
		{ PART("Content-Disposition: form-data; name=\"model\"; name=\"x\"", "x") CLOSE, "two names" },
		{ PART("Content-Disposition: form-data; name=\"model\"\r\nContent-Disposition: form-data", "x") CLOSE,
		  "two Content-Dispositions" },
		{ PART("Content-Disposition: attachment; name=\"model\"", "x") CLOSE, "no form-data" },
		{ PART("Content-Disposition: form-data; name=\"model", "x") CLOSE, "cannot be read" },
		{ PART("Content-Disposition: form-data; name=\"model\" x", "x") CLOSE, "cannot be read" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		for (size_t step = 1; step < 9; step += 7) {
			char text[MULTIPART_TEXT];
			assert_false(read_form(str_from(forms[i].body), step));
			if (!strstr(multipart_explain(&form, text), forms[i].fault))
				fail_msg("form %zu: '%s' is not in '%s'", i, forms[i].fault, text);
		}
}

static void everything_has_a_bound(void **state)
{
	struct buf body = BUF_INIT;
	(void)state;

	buf_append_str(&body, STR("--AaB03x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n"));
	for (int i = 0; i < BODY_MODEL_MAX + 1; i++)
		buf_append_char(&body, 'm');
	buf_append_str(&body, STR("\r\n" CLOSE));
	assert_false(read_form(buf_str(&body), 64));
	assert_non_null(strstr(form.fault, "too long"));

	buf_release(&body);
	for (int i = 0; i <= MULTIPART_PARTS_MAX; i++)
		buf_append_str(&body, STR(PART("A: b", "")));
	assert_false(read_form(buf_str(&body), 64));
	assert_string_equal(form.fault, "too many parts");

	buf_release(&body);
	buf_append_str(&body, STR("--AaB03x\r\nX: "));
	for (int i = 0; i <= MULTIPART_LINE_MAX; i++)
		buf_append_char(&body, 'x');
	assert_false(read_form(buf_str(&body), 64));
	assert_string_equal(form.fault, "a line of a part's head is too long");
	buf_release(&body);

	/* A file's name that is longer than anything we keep is nobody's business. */
	struct buf name = BUF_INIT;
	buf_append_str(&name, STR("--AaB03x\r\nContent-Disposition: form-data; name=\"file\"; filename=\""));
	for (int i = 0; i < 1000; i++)
		buf_append_char(&name, 'n');
	buf_append_str(&name, STR("\"\r\n\r\nx\r\n" FIELD("model", "m") CLOSE));
	assert_true(read_form(buf_str(&name), 64));
	assert_string_equal(form.facts.model, "m");
	buf_release(&name);
}

static void the_boundary_is_read_from_the_content_type(void **state)
{
	static const struct {
		const char *type;
		bool is_form;
		const char *boundary;
	} rows[] = {
		{ "multipart/form-data; boundary=AaB03x", true, "AaB03x" },
		{ "Multipart/Form-Data;charset=utf-8; Boundary=\"a b:c\" ", true, "a b:c" },
		{ "multipart/form-data; boundary=\"a\\\"b\"", true, "" },
		{ "multipart/form-data", true, "" },
		{ "multipart/form-data; boundary=", true, "" },
		{ "multipart/form-data; boundary=a; boundary=b", true, "" },
		{ "multipart/form-data; boundary=\"a ", true, "" },
		{ "multipart/form-data; boundary="
		  "0123456789012345678901234567890123456789012345678901234567890123456789x", true, "" },
		{ "multipart/mixed; boundary=x", false, "" },
		{ "application/json", false, "" },
		{ "", false, "" },
	};
	char boundary[MULTIPART_BOUNDARY_MAX + 1];
	(void)state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(multipart_boundary(str_from(rows[i].type), boundary), rows[i].is_form);
		assert_string_equal(boundary, rows[i].boundary);
	}
	multipart_init(&form, "");
	assert_false(multipart_feed(&form, STR("--\r\n")));
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(the_model_is_found_however_the_body_is_cut),
		cmocka_unit_test(a_value_may_look_like_a_delimiter_s_beginning),
		cmocka_unit_test(a_file_or_another_field_is_no_model),
		cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
		cmocka_unit_test(everything_has_a_bound),
		cmocka_unit_test(the_boundary_is_read_from_the_content_type),
	};
	return cmocka_run_group_tests(all, NULL, NULL);
}
