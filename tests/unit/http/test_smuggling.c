/*
 * Streams that try to be read in two ways. The name of each file says how it
 * has to end: KIND-VERDICT-what.raw, where KIND is tcp, unix or response and
 * VERDICT is ok, body (the head is fine, its body's framing is not) or the
 * status of the refusal.
 */
#include "../cmocka_all.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "http/message.h"
#include "reading.h"

struct sample {
	char *name;
	enum head_kind kind;
	int status; /* of the refusal; 0: the head is fine */
	bool is_bad_body;
	struct buf bytes;
};

static void load(struct sample *sample, const char *name)
{
	struct str rest;
	struct str kind = str_cut(str_from(name), '-', &rest);
	struct str verdict = str_cut(rest, '-', &rest);
	uint64_t status = 0;

	sample->name = xstrdup(name);
	sample->kind = str_is(kind, "tcp")    ? HEAD_REQUEST_TCP
	               : str_is(kind, "unix") ? HEAD_REQUEST_UNIX
	                                      : HEAD_RESPONSE;
	sample->is_bad_body = str_is(verdict, "body");
	if (str_to_u64(verdict, &status))
		sample->status = (int)status;
	else
		assert_true(sample->is_bad_body || str_is(verdict, "ok"));

	char *path = xasprintf("%s/%s", CORPUS_DIR, name);
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	buf_commit(&sample->bytes, fread(buf_reserve(&sample->bytes, 65536), 1, 65536, file));
	fclose(file);
	free(path);
}

static void unload(struct sample *sample)
{
	free(sample->name);
	buf_release(&sample->bytes);
}

static unsigned each_sample(void (*test)(const struct sample *sample))
{
	struct dirent *entry;
	unsigned count = 0;
	DIR *dir = opendir(CORPUS_DIR);

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (!str_ends(str_from(entry->d_name), ".raw"))
			continue;
		struct sample sample = { .bytes = BUF_INIT };
		load(&sample, entry->d_name);
		test(&sample);
		unload(&sample);
		count++;
	}
	closedir(dir);
	return count;
}

static void check_alone(const struct sample *sample)
{
	size_t scanned = 0;
	struct str bytes = buf_str(&sample->bytes);
	int64_t length = head_find(bytes, sample->kind, &scanned);
	enum head_fault fault = length < 0 ? HEAD_TOO_LARGE : HEAD_INCOMPLETE;

	if (length > 0)
		fault = head_check((struct str){ bytes.data, (size_t)length }, sample->kind, NULL);
	int expected = sample->status ? sample->status : 200;
	if (head_fault_status(fault) != expected || fault == HEAD_INCOMPLETE)
		fail_msg("%s: %d, %s", sample->name, head_fault_status(fault),
		         head_fault_text(fault));
}

static void the_check_alone_gives_the_verdict(void **state)
{
	(void)state;
	assert_true(each_sample(check_alone) >= 170);
}

static void read_both_ways(const struct sample *sample)
{
	struct reading ours, theirs;

	reading_ours(&ours, buf_str(&sample->bytes), sample->kind, SIZE_MAX);
	reading_llhttp(&theirs, buf_str(&sample->bytes), sample->kind);
	if (ours.fault == HEAD_DISAGREEMENT)
		fail_msg("%s: llhttp refuses what the check accepts", sample->name);
	if (ours.is_broken != sample->is_bad_body)
		fail_msg("%s: the body is %s", sample->name,
		         ours.is_broken ? "refused" : "accepted");
	if (ours.fault == HEAD_OK && !ours.is_broken && !reading_equal(&ours, &theirs))
		fail_msg("%s: llhttp ends the message elsewhere", sample->name);
	reading_release(&ours);
	reading_release(&theirs);
}

static void what_is_accepted_llhttp_reads_the_same(void **state)
{
	(void)state;
	each_sample(read_both_ways);
}

static void read_byte_by_byte(const struct sample *sample)
{
	struct reading whole, drips;

	reading_ours(&whole, buf_str(&sample->bytes), sample->kind, SIZE_MAX);
	reading_ours(&drips, buf_str(&sample->bytes), sample->kind, 1);
	if (!reading_equal(&whole, &drips))
		fail_msg("%s: read differently when it drips in", sample->name);
	reading_release(&whole);
	reading_release(&drips);
}

static void a_stream_that_drips_in_reads_the_same(void **state)
{
	(void)state;
	each_sample(read_byte_by_byte);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_check_alone_gives_the_verdict),
		cmocka_unit_test(what_is_accepted_llhttp_reads_the_same),
		cmocka_unit_test(a_stream_that_drips_in_reads_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
