/* Files by path: what is no model file is refused at once, and split models are found whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_file_is_refused_without_waiting),
		cmocka_unit_test(a_split_model_is_summed_over_its_parts),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
