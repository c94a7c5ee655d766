/* Conversations in files: the newest of each model within its share, and no file without an entry. */
#include "../cmocka_all.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/saved.h"

enum { MODEL = 3, OTHER = 4 };

static char folder[] = "/tmp/test-saved-XXXXXX";

static bool is_there(const char *file)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	return access(path, F_OK) == 0;
}

static struct saved_conversation named(uint32_t model, uint64_t conversation)
{
	struct saved_conversation entry = { .model = model, .conversation = conversation, .key = model, .tokens = 9 };

	saved_name(&entry);
	return entry;
}

/* Written as an engine would, and noted. */
static void put(struct saved *saved, uint32_t model, uint64_t conversation, int64_t bytes, int64_t most)
{
	struct saved_conversation entry = named(model, conversation);
	char path[200];

	entry.bytes = bytes;
	snprintf(path, sizeof(path), "%s/%s", folder, entry.file);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	saved_put(saved, &entry, most);
}

static bool has(const struct saved *saved, uint32_t model, uint64_t conversation)
{
	bool found = saved_find(saved, model, conversation) != NULL;
	assert_int_equal(found, is_there(named(model, conversation).file)); /* entry and file come and go together */
	return found;
}

static void empty(void)
{
	struct saved all = { .folder = folder };

	saved_load(&all, NULL, 0, 0);
}

static struct saved *fresh(void)
{
	struct saved *saved = calloc(1, sizeof(*saved));

	assert_non_null(saved);
	saved->folder = folder;
	empty();
	return saved;
}

static void the_oldest_go_where_the_share_is_full(void **state)
{
	struct saved *saved = fresh();
	(void)state;

	put(saved, MODEL, 1, 40, 100);
	put(saved, OTHER, 1, 500, 1000);
	put(saved, MODEL, 2, 40, 100);
	assert_true(has(saved, MODEL, 1) && has(saved, MODEL, 2));
	put(saved, MODEL, 3, 40, 100);
	assert_false(has(saved, MODEL, 1));
	assert_true(has(saved, MODEL, 2) && has(saved, MODEL, 3));
	assert_true(has(saved, OTHER, 1)); /* its share is its own */
	put(saved, MODEL, 4, 90, 100);
	assert_false(has(saved, MODEL, 2) || has(saved, MODEL, 3));
	assert_int_equal(saved->count, 2);
	free(saved);
}

static void the_same_conversation_again_is_written_over(void **state)
{
	struct saved *saved = fresh();
	(void)state;

	put(saved, MODEL, 1, 40, 100);
	put(saved, MODEL, 2, 40, 100);
	put(saved, MODEL, 1, 60, 100); /* the newest now: with the other exactly the share */
	assert_true(has(saved, MODEL, 1) && has(saved, MODEL, 2));
	assert_int_equal(saved_find(saved, MODEL, 1)->bytes, 60);
	assert_int_equal(saved->count, 2);
	put(saved, MODEL, 3, 30, 100);
	assert_false(has(saved, MODEL, 2));
	assert_true(has(saved, MODEL, 1));
	free(saved);
}

/* As where the disk is full: a file is there, and no good. */
static void what_could_not_be_written_whole_goes(void **state)
{
	struct saved *saved = fresh();
	struct saved_conversation fresh_one = named(MODEL, 2), again = named(MODEL, 1);
	char path[200];
	(void)state;

	put(saved, MODEL, 1, 40, 100);
	snprintf(path, sizeof(path), "%s/%s", folder, fresh_one.file);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	saved_spoilt(saved, &fresh_one);
	assert_true(has(saved, MODEL, 1));
	assert_false(has(saved, MODEL, 2));
	saved_spoilt(saved, &again); /* it was being written over */
	assert_false(has(saved, MODEL, 1));
	assert_int_equal(saved->count, 0);
	free(saved);
}

static void brought_back_it_is_gone(void **state)
{
	struct saved *saved = fresh();
	(void)state;

	put(saved, MODEL, 1, 40, 100);
	saved_drop(saved, MODEL, 1);
	assert_false(has(saved, MODEL, 1));
	saved_drop(saved, MODEL, 1); /* there is nothing to do twice */
	assert_int_equal(saved->count, 0);
	free(saved);
}

static void a_full_table_takes_the_newest(void **state)
{
	struct saved *saved = fresh();
	(void)state;

	for (uint64_t i = 1; i <= SAVED_MAX + 5; i++)
		put(saved, MODEL, i, 1, 100000);
	assert_int_equal(saved->count, SAVED_MAX);
	assert_false(has(saved, MODEL, 5));
	assert_true(has(saved, MODEL, 6) && has(saved, MODEL, SAVED_MAX + 5));
	free(saved);
}

/* The folder as it is at the next start, where OTHER's engine is another one and MODEL's index is 0. */
static void a_new_life_takes_over_what_still_holds(void **state)
{
	struct saved *saved = fresh(), *next = calloc(1, sizeof(*next));
	struct saved_share models[] = { { MODEL, 100 }, { 77, 100 } };
	char stray[200];
	(void)state;

	put(saved, MODEL, 7, 1, 10);
	put(saved, OTHER, 8, 1, 10);
	snprintf(stray, sizeof(stray), "%s/0000000000000003-0000000000000009-12x.kv", folder);
	close(open(stray, O_CREAT | O_WRONLY, 0600));
	assert_non_null(next);
	next->folder = folder;
	saved_load(next, models, 2, 0);
	assert_int_equal(next->count, 1);
	const struct saved_conversation *found = saved_find(next, 0, 7);
	assert_non_null(found);
	assert_int_equal(found->tokens, 9);
	assert_string_equal(found->file, named(MODEL, 7).file);
	assert_false(is_there(named(OTHER, 8).file));
	assert_int_not_equal(access(stray, F_OK), 0);
	models[0].most_bytes = 0; /* `kv_keep` was taken out */
	next->count = 0;
	saved_load(next, models, 2, 0);
	assert_int_equal(next->count, 0);
	assert_false(is_there(named(MODEL, 7).file));
	next->folder = "/nonexistent";
	saved_load(next, models, 2, 0);
	free(saved);
	free(next);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	empty();
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_go_where_the_share_is_full),
		cmocka_unit_test(the_same_conversation_again_is_written_over),
		cmocka_unit_test(what_could_not_be_written_whole_goes),
		cmocka_unit_test(brought_back_it_is_gone),
		cmocka_unit_test(a_full_table_takes_the_newest),
		cmocka_unit_test(a_new_life_takes_over_what_still_holds),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
