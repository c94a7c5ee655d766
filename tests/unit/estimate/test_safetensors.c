/* Checkpoints: what their tables say, and headers that lie. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../cmocka_all.h"

#include "base/buf.h"
#include "estimate/forms.h"
#include "estimate/safetensors.h"

static struct buf file;
static struct estimate_params launch; /* as the next estimate is launched */

static int read_buf(void *ctx, uint64_t offset, void *out, uint32_t length)
{
	(void)ctx;
	if (offset + length > buf_length(&file))
		return -ENODATA;
	memcpy(out, buf_str(&file).data + offset, length);
	return 0;
}

/* The length is said as `said`, or as it is with 0; `data` bytes are there behind. */
static int estimate_header(const char *header, uint64_t said, uint64_t data, struct estimate *out, struct err *err)
{
	uint64_t length = said ? said : strlen(header);

	buf_release(&file);
	for (int i = 0; i < 8; i++)
		buf_append_char(&file, (char)(length >> 8 * i));
	buf_append_str(&file, str_from(header));
	struct byte_source source = { NULL, read_buf, buf_length(&file) + data };
	return estimate_checkpoint(&source, &launch, out, err);
}

#define TENSOR(name, type, shape, from, to) \
	"\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

static void a_table_is_summed_by_what_it_holds(void **state)
{
	static const struct {
		const char *header;
		uint64_t data;
		const char *family, *type;
		int64_t weights;
	} rows[] = {
		{ "{\"__metadata__\":{\"a\":\"b\\\"}\"}," TENSOR("model.diffusion_model.x.attn2.to_k.weight", "F16",
		                                                 "320,768", "0", "491520") "  }  ",
		  491520, "sd1", "F16", 491520 },
		{ "{" TENSOR("model.diffusion_model.x.attn2.to_k.weight", "F32", "2,1024", "0", "8192") "}", 8192, "sd2",
		  "F32", 8192 },
		{ "{" TENSOR("conditioner.embedders.1.model.w", "BF16", "8", "0", "16") "}", 16, "sdxl", "BF16", 16 },
		{ "{ \"b\" : { \"shape\" : [ ] , \"dtype\" : \"F64\" , \"data_offsets\" : [ 4 , 12 ] } ,\n"
		  TENSOR("double_blocks.0", "F8_E4M3", "4", "0", "4") "}", 12, "flux", "F8_E4M3", 8 + 4 },
		{ "{" TENSOR("joint_blocks.0", "U8", "0,7", "0", "0") "}", 0, "sd3", "none", 0 },
		{ "{}", 0, "safetensors", "none", 0 },
	};
	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct estimate out;
		struct err err = { 0 };
		if (estimate_header(rows[i].header, 0, rows[i].data, &out, &err) < 0)
			fail_msg("row %zu: %s", i, err.text);
		assert_string_equal(out.architecture, rows[i].family);
		assert_int_equal(out.host.weights_bytes, rows[i].weights);
		assert_int_equal(out.missing_bytes, 0);
		assert_true(out.steady_bytes == out.base_bytes + out.per_request_bytes);
		assert_true(estimate_picture(&out.picture, 512 * 512) <= out.per_request_bytes);
		assert_true(estimate_picture(&out.picture, 64 * 64) < 64 << 20);
		bool known = strcmp(rows[i].family, "safetensors") != 0;
		assert_int_equal(known, estimate_picture(&out.picture, INT64_C(16384) * 16384) > INT64_C(1) << 40);
		if (i != 3)
			assert_string_equal(out.quantisation, rows[i].type);
	}
}

static void what_is_missing_of_the_data_is_told(void **state)
{
	struct estimate out;
	struct err err = { 0 };
	(void)state;

	assert_int_equal(estimate_header("{" TENSOR("a", "F16", "100", "0", "200") "}", 0, 50, &out, &err), 0);
	assert_int_equal(out.missing_bytes, 150);
	assert_string_equal(out.flags, "incomplete");
}

static void a_header_that_lies_is_refused(void **state)
{
	static const struct {
		const char *header;
		uint64_t said;
		int code;
		const char *text;
	} rows[] = {
		{ "{}", UINT64_C(1) << 63, -EBADMSG, "a header of 9223372036854775808 bytes" },
		{ "{}", UINT64_MAX, -EBADMSG, "makes no sense" },
		{ "{}", 100000001, -EBADMSG, "makes no sense" },
		{ "{}", 1000, -ENODATA, "at least 998 bytes are missing" },
		{ "{", 1, -EBADMSG, "a text is missing" },
		{ "[]", 0, -EBADMSG, "an object is missing" },
		{ "{} x", 0, -EBADMSG, "something stands behind it" },
		{ "{\"a", 0, -EBADMSG, "a text does not end" },
		{ "{\"a\":{}}", 0, -EBADMSG, "a text is missing" },
		{ "{" TENSOR("a", "F16", "2", "0", "4") "," TENSOR("b", "F16", "2", "2", "6") "}", 0, -EBADMSG, "overlap" },
		{ "{" TENSOR("a", "F16", "2", "0", "4") "," TENSOR("b", "F16", "2", "0", "4") "}", 0, -EBADMSG, "overlap" },
		{ "{" TENSOR("a", "F16", "2", "0", "4") "," TENSOR("b", "F16", "2", "8", "12") "}", 0, -EBADMSG, "a hole" },
		{ "{" TENSOR("a", "F16", "2", "0", "4") "," TENSOR("a", "F16", "2", "4", "8") "}", 0, -EBADMSG, "twice" },
		{ "{" TENSOR("a", "F16", "2", "4", "0") "}", 0, -EBADMSG, "not as long as its shape" },
		{ "{" TENSOR("a", "F16", "3", "0", "4") "}", 0, -EBADMSG, "not as long as its shape" },
		{ "{" TENSOR("a", "F16", "4294967296,4294967296,4294967296", "0", "0") "}", 0, -EBADMSG, "not as long" },
		{ "{" TENSOR("a", "F16", "99999999999999999999", "0", "0") "}", 0, -EBADMSG, "makes no sense" },
		{ "{" TENSOR("a", "F16", "-2", "0", "4") "}", 0, -EBADMSG, "a whole number is missing" },
		{ "{" TENSOR("a", "F16", "2.0", "0", "4") "}", 0, -EBADMSG, "a ',' is missing" },
		{ "{" TENSOR("a", "F16", "1,1,1,1,1,1,1,1,2", "0", "4") "}", 0, -EBADMSG, "too long" },
		{ "{" TENSOR("a", "X9", "2", "0", "4") "}", 0, -EBADMSG, "a type that is not known" },
		{ "{\"a\":{\"dtype\":\"F16\",\"dtype\":\"F16\"}}", 0, -EBADMSG, "twice" },
		{ "{\"a\":{\"dtype\":\"F16\",\"shape\":[2]}}", 0, -EBADMSG, "lacks" },
		{ "{\"__metadata__\":[[[[[[1]]]]]]}", 0, -EBADMSG, "too deep" },
		{ "{\"__metadata__\":}", 0, -EBADMSG, "a value is missing" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct estimate out;
		struct err err = { 0 };
		int code = estimate_header(rows[i].header, rows[i].said, 0, &out, &err);
		if (code != rows[i].code || !strstr(err.text, rows[i].text))
			fail_msg("row %zu: %d, '%s', not '%s'", i, code, err.text, rows[i].text);
	}
}

/* Cut anywhere, it is refused; no read goes beyond the file. */
/* sd-server's --type, --diffusion-fa and --vae-tiling; what ComfyUI could do with is its largest part. */
static void a_launch_changes_what_a_picture_takes(void **state)
{
	static const char header[] = "{" TENSOR("model.diffusion_model.x.attn2.to_k.weight", "F16", "320,768", "0", "491520") ","
		TENSOR("first_stage_model.w", "F16", "320,100", "491520", "555520") ","
		TENSOR("first_stage_model.b", "F32", "16", "555520", "555584") "}";
	struct estimate plain, other;
	struct err err = { 0 };
	(void)state;

	assert_int_equal(estimate_header(header, 0, 555584, &plain, &err), 0);
	assert_int_equal(plain.host.weights_bytes, 555584);
	assert_int_equal(plain.largest_part_bytes, 491520);
	launch.image_type = "q4_0";
	assert_int_equal(estimate_header(header, 0, 555584, &other, &err), 0);
	assert_in_range(other.host.weights_bytes, (320 * 868) / 32 * 18 + 64, (320 * 868 / 32 + 1) * 18 + 64);
	launch.image_type = "no-type";
	assert_int_equal(estimate_header(header, 0, 555584, &other, &err), 0);
	assert_int_equal(other.host.weights_bytes, plain.host.weights_bytes);
	launch = (struct estimate_params){ .image_tiles = true };
	assert_int_equal(estimate_header(header, 0, 555584, &other, &err), 0);
	assert_int_equal(plain.per_request_bytes, 512 * 512 * 6656);
	assert_int_equal(other.per_request_bytes, 7876369 + 512 * 512 * 161 + INT64_C(512) * 512 * 512 * 512 / 128);
	launch.image_flash = true;
	assert_int_equal(estimate_header(header, 0, 555584, &other, &err), 0);
	assert_int_equal(other.per_request_bytes, 256 * 256 * 6656);
	assert_true(estimate_picture(&other.picture, 2048 * 2048) < estimate_picture(&plain.picture, 2048 * 2048) / 10);
	launch = (struct estimate_params){ 0 };
}

/* Each is remembered until all were seen; so there are so many, and what is held stays below 1 MiB. */
static void tensors_are_counted(void **state)
{
	struct buf header = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };
	(void)state;

	for (uint32_t tensors = SAFETENSORS_TENSORS_MOST; tensors <= SAFETENSORS_TENSORS_MOST + 1; tensors++) {
		buf_release(&header);
		for (uint32_t i = 0; i < tensors; i++)
			buf_printf(&header, "%c" "\"t%u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
			           i ? ',' : '{', i, i, i + 1);
		buf_append_char(&header, '}');
		int code = estimate_header(buf_cstr(&header), 0, tensors, &out, &err);
		assert_int_equal(code, tensors > SAFETENSORS_TENSORS_MOST ? -EBADMSG : 0);
	}
	assert_non_null(strstr(err.text, "too many tensors"));
	buf_release(&header);
}

static void a_header_cut_anywhere_is_refused(void **state)
{
	static const char header[] = "{\"__metadata__\":{\"k\":\"v\"}," TENSOR("a", "F16", "2,3", "0", "12") "}";
	char part[sizeof header];
	(void)state;

	for (size_t length = 1; length < sizeof header - 1; length++) {
		struct estimate out;
		struct err err = { 0 };
		memcpy(part, header, length);
		part[length] = '\0';
		assert_int_equal(estimate_header(part, 0, 0, &out, &err), -EBADMSG);
		assert_int_equal(estimate_header(part, sizeof header - 1, 0, &out, &err), -ENODATA);
	}
	buf_release(&file);
}

int main(void)
{
	const struct CMUnitTest all[] = {
		cmocka_unit_test(a_table_is_summed_by_what_it_holds),
		cmocka_unit_test(what_is_missing_of_the_data_is_told),
		cmocka_unit_test(a_header_that_lies_is_refused),
		cmocka_unit_test(tensors_are_counted),
		cmocka_unit_test(a_launch_changes_what_a_picture_takes),
		cmocka_unit_test(a_header_cut_anywhere_is_refused),
	};
	return cmocka_run_group_tests(all, NULL, NULL);
}
