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

/* Written as an engine would, and noted. */
static void put(struct saved *saved, uint32_t model, uint64_t conversation, int64_t bytes, int64_t most)
{
	struct saved_conversation entry = { .model = model, .conversation = conversation, .bytes = bytes, .tokens = 9 };
	char path[200];

	saved_name(model, conversation, entry.file);
	snprintf(path, sizeof(path), "%s/%s", folder, entry.file);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	saved_put(saved, &entry, most);
}

static bool has(const struct saved *saved, uint32_t model, uint64_t conversation)
{
	char name[SAVED_NAME_BYTES];

	saved_name(model, conversation, name);
	bool found = saved_find(saved, model, conversation) != NULL;
	assert_int_equal(found, is_there(name)); /* entry and file come and go together */
	return found;
}

static struct saved *fresh(void)
{
	struct saved *saved = calloc(1, sizeof(*saved));

	assert_non_null(saved);
	saved->folder = folder;
	saved_empty(folder);
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

static void a_new_life_begins_with_an_empty_folder(void **state)
{
	struct saved *saved = fresh();
	char name[SAVED_NAME_BYTES];
	(void)state;

	put(saved, MODEL, 7, 1, 10);
	saved_name(MODEL, 7, name);
	saved_empty(folder);
	assert_false(is_there(name));
	saved_empty("/nonexistent");
	free(saved);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	saved_empty(folder);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_go_where_the_share_is_full),
		cmocka_unit_test(the_same_conversation_again_is_written_over),
		cmocka_unit_test(brought_back_it_is_gone),
		cmocka_unit_test(a_full_table_takes_the_newest),
		cmocka_unit_test(a_new_life_begins_with_an_empty_folder),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
