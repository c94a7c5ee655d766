/* whisper.cpp's own form: what the engine was measured to take, and headers that lie. */
#include <errno.h>
#include <string.h>

#include "../cmocka_all.h"

#include "base/buf.h"
#include "estimate/forms.h"

static int read_buf(void *ctx, uint64_t offset, void *out, uint32_t length)
{
	struct str bytes = *(struct str *)ctx;
	if (offset + length > bytes.length)
		return -ENODATA;
	memcpy(out, bytes.data + offset, length);
	return 0;
}

static int64_t decoders, processors; /* as the next estimate is launched; 0 = the engine's own */

/* The eleven numbers, in their order; the file is as long as it says it is. */
static int estimate_numbers(const int32_t numbers[11], uint64_t size, struct estimate *out, struct err *err)
{
	unsigned char raw[48] = { 'l', 'm', 'g', 'g' };
	struct str bytes = { (const char *)raw, sizeof raw };
	struct byte_source source = { &bytes, read_buf, size };

	for (int i = 0; i < 44; i++)
		raw[4 + i] = (unsigned char)((uint32_t)numbers[i / 4] >> 8 * (i % 4));
	assert_int_equal(form_of(&source), FORM_WHISPER);
	struct estimate_params params;

	estimate_defaults(&params);
	params.decoders = decoders;
	params.processors = processors;
	return estimate_whisper(&source, &params, out, err);
}

static void assert_near(int64_t bytes, int64_t mib, int percent)
{
	int64_t wanted = mib << 20;
	if (bytes < wanted / 100 * (100 - percent) || bytes > wanted / 100 * (100 + percent))
		fail_msg("%lld MiB, not %lld", (long long)(bytes >> 20), (long long)mib);
}

/* Resident after loading, and the largest compute buffers of the log (engine 1.9.5). */
static void what_was_measured_is_what_is_said(void **state)
{
	static const struct {
		int32_t numbers[11];
		uint64_t file;
		int64_t loaded_mib, kv_mib, compute_mib;
		const char *name;
	} rows[] = {
		{ { 51864, 1500, 384, 6, 4, 448, 384, 6, 4, 80, 1 }, 77704698, 134, 14, 125, "whisper tiny" },
		{ { 51865, 1500, 512, 8, 6, 448, 512, 8, 6, 80, 1 }, 148034173, 214, 27, 134, "whisper base" },
		{ { 51865, 1500, 768, 12, 12, 448, 768, 12, 12, 80, 1 }, 487684675, 595, 76, 158, "whisper small" },
		{ { 51866, 1500, 1280, 20, 32, 448, 1280, 20, 32, 128, 1 }, 3095116191, 3334, 328, 199, "whisper large" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct estimate out;
		struct err err = { 0 };
		assert_int_equal(estimate_numbers(rows[i].numbers, rows[i].file, &out, &err), 0);
		assert_string_equal(out.name, rows[i].name);
		assert_string_equal(out.architecture, "whisper");
		assert_string_equal(out.quantisation, "F16");
		assert_int_equal(out.missing_bytes, 0);
		assert_near(out.base_bytes, rows[i].loaded_mib, 4);
		assert_near(out.host.kv_bytes, rows[i].kv_mib, 5);
		assert_near(out.host.compute_bytes, rows[i].compute_mib, 10);
		assert_true(out.steady_bytes == out.base_bytes + out.per_request_bytes);
		assert_true(out.lower_bytes < out.base_bytes && out.upper_bytes > out.steady_bytes);
	}
}

static void a_file_that_is_cut_is_told(void **state)
{
	static const int32_t tiny[11] = { 51864, 1500, 384, 6, 4, 448, 384, 6, 4, 80, 1 };
	struct estimate out;
	struct err err = { 0 };
	(void)state;

	assert_int_equal(estimate_numbers(tiny, 40000000, &out, &err), 0);
	assert_true(out.missing_bytes > 30000000);
	assert_string_equal(out.flags, "incomplete");
	assert_int_equal(estimate_numbers(tiny, 47, &out, &err), -ENODATA);
	assert_non_null(strstr(err.text, "1 bytes are missing"));
}

static void a_header_that_lies_is_refused(void **state)
{
	(void)state;

	for (int i = 0; i < 10; i++) {
		static const int32_t lies[] = { 0, -1, INT32_MIN, INT32_MAX };
		for (size_t lie = 0; lie < 4; lie++) {
			int32_t numbers[11] = { 51864, 1500, 384, 6, 4, 448, 384, 6, 4, 80, 1 };
			struct estimate out;
			struct err err = { 0 };
			numbers[i] = lies[lie];
			assert_int_equal(estimate_numbers(numbers, 77704698, &out, &err), -EBADMSG);
		}
	}
}

static void a_number_out_of_bounds_is_named(void **state)
{
	const int32_t numbers[11] = { 51864, 1500, 384, 6, 4, 0, 384, 6, 4, 80, 1 };
	const int32_t unequal[11] = { 51864, 1500, 384, 6, 4, 448, 512, 6, 4, 80, 1 };
	struct estimate out;
	struct err err = { 0 };
	(void)state;

	assert_int_equal(estimate_numbers(numbers, 77704698, &out, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "n_text_ctx is 0"));
	assert_int_equal(estimate_numbers(unequal, 77704698, &out, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "n_audio_state is 384, n_text_state 512"));
}

/* kv_self of one decoder is there; of several each has one, and two more; a processor has a state of its own. */
static void decoders_and_processors_have_caches(void **state)
{
	static const int32_t tiny[] = { 51864, 1500, 384, 6, 4, 448, 384, 6, 4, 80, 1 };
	static const uint64_t size = 77704698;
	const int64_t own = 2 * 512 * 384 * 4 * 2;
	struct estimate usual, other;
	struct err err = { 0 };
	(void)state;

	assert_int_equal(estimate_numbers(tiny, size, &usual, &err), 0);
	decoders = 1;
	assert_int_equal(estimate_numbers(tiny, size, &other, &err), 0);
	assert_int_equal(usual.per_request_bytes - other.per_request_bytes, 3 * own);
	decoders = 5;
	assert_int_equal(estimate_numbers(tiny, size, &other, &err), 0);
	assert_int_equal(other.per_request_bytes - usual.per_request_bytes, 3 * own);
	decoders = 0;
	processors = 3;
	assert_int_equal(estimate_numbers(tiny, size, &other, &err), 0);
	assert_int_equal(other.per_request_bytes, 3 * usual.per_request_bytes + 2 * usual.host.kv_bytes);
	processors = 0;
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(decoders_and_processors_have_caches),
		cmocka_unit_test(what_was_measured_is_what_is_said),
		cmocka_unit_test(a_file_that_is_cut_is_told),
		cmocka_unit_test(a_header_that_lies_is_refused),
		cmocka_unit_test(a_number_out_of_bounds_is_named),
	};
	return cmocka_run_group_tests(all, NULL, NULL);
}
