/* Files by path: what is no model file is refused at once, and split models are found whole. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "../cmocka_all.h"
#include "gguf_maker.h"

struct folder {
	char path[64];
};

static int make_folder(void **state)
{
	struct folder *folder = calloc(1, sizeof *folder);
	if (!folder)
		return -1;
	snprintf(folder->path, sizeof folder->path, "/tmp/test-estimate-XXXXXX");
	*state = folder;
	return mkdtemp(folder->path) ? 0 : -1;
}

static int remove_folder(void **state)
{
	struct folder *folder = *state;
	int rc = rmdir(folder->path); /* each test removes what it made */
	free(folder);
	return rc;
}

static const char *in(void **state, const char *name)
{
	static char path[256];
	struct folder *folder = *state;
	snprintf(path, sizeof path, "%s/%s", folder->path, name);
	return path;
}

static void write_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
	close(fd);
}

static int estimate_path(const char *path, struct estimate *out, struct err *err)
{
	struct estimate_params params;
	estimate_defaults(&params);
	params.context = 4096;
	return estimate_file(path, &params, out, err);
}

static void expect_refusal(const char *path, int code, const char *text)
{
	struct estimate out;
	struct err err = { 0 };
	assert_int_equal(estimate_path(path, &out, &err), code);
	if (!strstr(err.text, text) || !strstr(err.text, path))
		fail_msg("'%s' does not hold '%s'", err.text, text);
}

static void what_is_no_file_is_refused_without_waiting(void **state)
{
	expect_refusal(in(state, "none.gguf"), -ENOENT, "No such file");

	const char *path = in(state, "folder.gguf");
	assert_int_equal(mkdir(path, 0700), 0);
	expect_refusal(path, -EISDIR, "is a directory");
	rmdir(path);

	path = in(state, "fifo.gguf");
	assert_int_equal(mkfifo(path, 0600), 0);
	alarm(10);
	expect_refusal(path, -EBADMSG, "no regular file");
	alarm(0);
	unlink(path);

	path = in(state, "empty.gguf");
	write_file(path, "", 0);
	expect_refusal(path, -ENODATA, "is empty");
	unlink(path);

	path = in(state, "text.gguf");
	write_file(path, "just a text\n", 12);
	expect_refusal(path, -EBADMSG, "not a GGUF file");
	unlink(path);

	expect_refusal("/dev/zero", -EBADMSG, "no regular file");
}

static const uint64_t embd[] = { 64, 256 };

/* Rewritten while it is read: by a timer's signal, which interrupts whoever reads. */
enum { TEXTS = 1 << 18, HALF = 4 << 20 };
static int rewritten = -1;

static void rewrite(int sig)
{
	static char nonsense[4096];
	(void)sig;

	memset(nonsense, 0xff, sizeof(nonsense));
	if (pwrite(rewritten, nonsense, sizeof(nonsense), HALF) < 0)
		abort();
}

static void what_is_wrong_with_a_file_that_changes_is_that_it_changed(void **state)
{
	const struct timespec long_ago[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
	const struct itimerval soon = { .it_value.tv_usec = 300 }, never = { 0 };
	struct buf file = BUF_INIT;
	struct estimate out;
	struct err err = { 0 };
	bool told = false;

	put_front(&file, 3, 1, 2);
	put_string(&file, "general.architecture", "llama");
	put_text(&file, "tokenizer.ggml.tokens");
	put(&file, ARRAY, 4);
	put(&file, TEXT, 4);
	put(&file, TEXTS, 8);
	for (int i = 0; i < TEXTS; i++)
		put_text(&file, "abcdefghijkl 0123456789 abcdefghij");
	put_tensor(&file, "token_embd.weight", 2, embd, 0, 0);
	signal(SIGALRM, rewrite);
	/* It may come before the file is opened, where there is much else to do. */
	for (int i = 0; i < 100 && !told; i++) {
		write_file(in(state, "m.gguf"), buf_cstr(&file), buf_length(&file));
		rewritten = open(in(state, "m.gguf"), O_WRONLY | O_CLOEXEC);
		assert_int_equal(futimens(rewritten, long_ago), 0);
		setitimer(ITIMER_REAL, &soon, NULL);
		told = estimate_path(in(state, "m.gguf"), &out, &err) == -ESTALE;
		setitimer(ITIMER_REAL, &never, NULL);
		close(rewritten);
	}
	assert_true(told);
	assert_non_null(strstr(err.text, "changed while it was read"));
	signal(SIGALRM, SIG_DFL);
	unlink(in(state, "m.gguf"));
	buf_release(&file);
}

static void put_part(struct buf *out, uint32_t part, const char *tensor)
{
	put_front(out, 3, 1, part == 0 ? 6 : 2);
	put_number(out, "split.no", part);
	put_number(out, "split.count", 2);
	if (part == 0) {
		put_string(out, "general.architecture", "llama");
		put_number(out, "llama.block_count", 1);
		put_number(out, "llama.embedding_length", 64);
		put_number(out, "llama.attention.head_count", 4);
	}
	put_tensor(out, tensor, 2, embd, 0, 0);
}

static void a_split_model_is_summed_over_its_parts(void **state)
{
	static const char *const names[] = { "m-00001-of-00002.gguf", "m-00002-of-00002.gguf" };
	struct estimate out;
	struct err err = { 0 };
	struct buf part[2] = { BUF_INIT, BUF_INIT };

	put_part(&part[0], 0, "token_embd.weight");
	put_part(&part[1], 1, "output.weight");
	write_file(in(state, names[0]), buf_cstr(&part[0]), buf_length(&part[0]));
	expect_refusal(in(state, names[0]), -ENOENT, "m-00002-of-00002.gguf");

	write_file(in(state, names[1]), buf_cstr(&part[1]), buf_length(&part[1]));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(estimate_path(in(state, names[i]), &out, &err), 0);
		assert_int_equal(out.host.weights_bytes, 2 * 64 * 256 * 4);
		assert_string_equal(out.flags, "incomplete");
	}

	write_file(in(state, names[1]), buf_cstr(&part[0]), buf_length(&part[0]));
	expect_refusal(in(state, names[0]), -EBADMSG, "part 1 where part 2 should be");

	buf_release(&part[1]);
	put_part(&part[1], 1, "token_embd.weight");
	write_file(in(state, names[1]), buf_cstr(&part[1]), buf_length(&part[1]));
	expect_refusal(in(state, names[0]), -EBADMSG, "'token_embd.weight' is there twice");
	unlink(in(state, names[0]));
	unlink(in(state, names[1]));
	buf_release(&part[0]);
	buf_release(&part[1]);
}

#define SHARD(name, bytes) "{\"" name "\":{\"dtype\":\"F16\",\"shape\":[" bytes "],\"data_offsets\":[0,400]}}"

static void write_safetensors(const char *path, const char *header, size_t data)
{
	struct buf out = BUF_INIT;
	size_t length = strlen(header);

	for (int i = 0; i < 8; i++)
		buf_append_char(&out, (char)(length >> 8 * i));
	buf_append_str(&out, str_from(header));
	for (size_t i = 0; i < data; i++)
		buf_append_char(&out, 0);
	write_file(path, buf_cstr(&out), buf_length(&out));
	buf_release(&out);
}

static void an_index_of_safetensors_is_followed(void **state)
{
	static const char *const names[] = { "m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors" };
	static const char index[] = "{\"metadata\":{\"total_size\":9},\"weight_map\":{"
	                            "\"x\":\"../etc/m-00001-of-00009.safetensors\",\"y\":\"other.safetensors\","
	                            "\"a\":\"m-00002-of-00002.safetensors\"}}";
	struct estimate out;
	struct err err = { 0 };

	write_file(in(state, "m.safetensors.index.json"), index, sizeof index - 1);
	write_safetensors(in(state, names[0]), SHARD("double_blocks.a", "200"), 400);
	expect_refusal(in(state, "m.safetensors.index.json"), -ENOENT, names[1]);
	write_safetensors(in(state, names[1]), SHARD("b", "200"), 300);
	for (int i = 0; i < 3; i++) {
		const char *path = in(state, i < 2 ? names[i] : "m.safetensors.index.json");
		if (estimate_path(path, &out, &err) < 0)
			fail_msg("%s", err.text);
		assert_int_equal(out.host.weights_bytes, 800);
		assert_int_equal(out.missing_bytes, 100);
		assert_string_equal(out.architecture, "flux");
	}
	/* However far behind a name stands, and however it lies in what is read at once. */
	for (size_t blanks = 0; blanks < 200000; blanks += blanks >= 65300 && blanks < 65540 ? 7 : 16325) {
		struct buf far = BUF_INIT;
		for (size_t i = 0; i < blanks; i++)
			buf_append_char(&far, ' ');
		buf_append_str(&far, str_from(index));
		write_file(in(state, "m.safetensors.index.json"), buf_cstr(&far), buf_length(&far));
		buf_release(&far);
		assert_int_equal(estimate_path(in(state, "m.safetensors.index.json"), &out, &err), 0);
		assert_int_equal(out.host.weights_bytes, 800);
	}
	write_file(in(state, "m.safetensors.index.json"), "{}", 2);
	expect_refusal(in(state, "m.safetensors.index.json"), -EBADMSG, "names no part");
	write_file(in(state, "m.safetensors.index.json"), "", 0);
	expect_refusal(in(state, "m.safetensors.index.json"), -EBADMSG, "names no part");
	assert_int_equal(truncate(in(state, "m.safetensors.index.json"), INT64_C(1) << 40), 0);
	expect_refusal(in(state, "m.safetensors.index.json"), -EFBIG, "over 64 MiB");
	for (int i = 0; i < 2; i++)
		unlink(in(state, names[i]));
	unlink(in(state, "m.safetensors.index.json"));
}

/* The diffusion model as GGUF, an encoder as safetensors, a decoder of a form that nobody knows here. */
static void an_image_model_in_parts_is_summed(void **state)
{
	char paths[3][256];
	const char *list[3] = { paths[0], paths[1], paths[2] };
	struct buf gguf = BUF_INIT;
	struct estimate_params params;
	struct estimate out;
	struct err err = { 0 };

	estimate_defaults(&params);
	put_front(&gguf, 3, 1, 0);
	uint64_t extent[] = { 64, 4 };
	put_tensor(&gguf, "double_blocks.0.w", 2, extent, 0, 0);
	for (int i = 0; i < 3; i++)
		snprintf(paths[i], sizeof paths[i], "%s", in(state, (const char *const[]){ "d.gguf", "t.safetensors", "v.ckpt" }[i]));
	write_file(paths[0], buf_cstr(&gguf), buf_length(&gguf));
	write_safetensors(paths[1], SHARD("text.w", "200"), 400);
	write_file(paths[2], paths, 100);
	if (estimate_image(list, 3, &params, &out, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(out.host.weights_bytes, 64 * 4 * 4 + 400 + 100);
	assert_string_equal(out.architecture, "flux");
	assert_true(out.per_request_bytes > 0);
	assert_true(out.missing_bytes >= 64 * 4 * 4);
	unlink(paths[1]);
	assert_int_equal(estimate_image(list, 3, &params, &out, &err), -ENOENT);
	assert_non_null(strstr(err.text, "part '"));
	assert_non_null(strstr(err.text, "t.safetensors"));
	unlink(paths[0]);
	unlink(paths[2]);
	buf_release(&gguf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_file_is_refused_without_waiting),
		cmocka_unit_test(what_is_wrong_with_a_file_that_changes_is_that_it_changed),
		cmocka_unit_test(a_split_model_is_summed_over_its_parts),
		cmocka_unit_test(an_index_of_safetensors_is_followed),
		cmocka_unit_test(an_image_model_in_parts_is_summed),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
