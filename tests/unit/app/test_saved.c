/* Conversations in files: the newest of each model within its share, and no file without an entry. */
#include "../cmocka_all.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

static size_t files_in_folder(void)
{
	DIR *dir = opendir(folder);
	size_t count = 0;

	assert_non_null(dir);
	for (const struct dirent *file; (file = readdir(dir));)
		count += file->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* What the engine writes of it: `bytes` of one letter. */
static struct saved_conversation written(uint32_t model, uint64_t conversation, int64_t bytes)
{
	struct saved_conversation entry = { .model = model, .conversation = conversation, .key = model, .tokens = 9 };
	char path[200];

	saved_begin(&entry, 0);
	snprintf(path, sizeof(path), "%s/%s", folder, entry.file);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (int64_t i = 0; i < bytes; i++)
		fputc('a' + (int)(conversation % 26), file);
	assert_int_equal(fclose(file), 0);
	return entry;
}

static struct saved_conversation sealed(uint32_t model, uint64_t conversation, int64_t bytes)
{
	struct saved_conversation entry = written(model, conversation, bytes);

	assert_int_equal(saved_seal(folder, &entry), 0);
	assert_int_equal(entry.bytes, bytes);
	return entry;
}

static void put(struct saved *saved, uint32_t model, uint64_t conversation, int64_t bytes, int64_t most)
{
	struct saved_conversation entry = sealed(model, conversation, bytes);

	saved_put(saved, &entry, most);
}

/* Entry and file come and go together. */
static bool has(const struct saved *saved, uint32_t model, uint64_t conversation)
{
	const struct saved_conversation *found = saved_find(saved, model, conversation);
	size_t files = 0;

	for (size_t i = 0; i < saved->count; i++)
		files += is_there(saved->list[i].file);
	assert_int_equal(files, saved->count);
	assert_int_equal(files_in_folder(), saved->count);
	return found != NULL;
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

static void the_same_conversation_again_takes_its_place(void **state)
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
	(void)state;

	put(saved, MODEL, 1, 40, 100);
	struct saved_conversation again = written(MODEL, 1, 20);
	assert_int_equal(files_in_folder(), 2);
	saved_spoilt(folder, &again);
	assert_true(has(saved, MODEL, 1)); /* what was saved before is not touched by it */
	struct saved_conversation gone = written(MODEL, 2, 20);
	saved_spoilt(folder, &gone);
	assert_int_equal(saved_seal(folder, &gone), -ENOENT);
	free(saved);
}

static void change(const struct saved_conversation *entry, long at, int byte)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", folder, entry->file);
	FILE *file = fopen(path, "r+");
	assert_non_null(file);
	fseek(file, at, SEEK_SET);
	fputc(byte, file);
	assert_int_equal(fclose(file), 0);
}

static void a_file_that_is_not_what_was_written_is_known(void **state)
{
	struct saved_conversation entry = sealed(MODEL, 1, 600000), other = sealed(MODEL, 2, 600000);
	char path[200], second[200];
	(void)state;

	snprintf(path, sizeof(path), "%s/%s", folder, entry.file);
	assert_int_equal(saved_check(folder, &entry), 0);
	change(&entry, 599999, 'x');
	assert_int_equal(saved_check(folder, &entry), -EBADMSG);
	change(&entry, 599999, 'b');
	assert_int_equal(saved_check(folder, &entry), 0);
	change(&entry, 600000, 'b'); /* longer */
	assert_int_equal(saved_check(folder, &entry), -EBADMSG);
	assert_int_equal(truncate(path, 599999), 0);
	assert_int_equal(saved_check(folder, &entry), -EBADMSG);
	/* Another conversation's file under this one's name. */
	snprintf(second, sizeof(second), "%s/%s", folder, other.file);
	assert_int_equal(rename(second, path), 0);
	assert_int_equal(saved_check(folder, &entry), -EBADMSG);
	assert_int_equal(saved_check(folder, &other), -ENOENT);
	assert_int_equal(unlink(path) + mkdir(path, 0700), 0);
	assert_int_equal(saved_check(folder, &entry), -EBADMSG);
	assert_int_equal(rmdir(path), 0);
	/* What is told of it is a sentence of its own, not the kernel's word alone. */
	char text[SAVED_WRONG];
	assert_string_equal(saved_wrong(text, -EBADMSG), "is damaged");
	assert_string_equal(saved_wrong(text, saved_check(folder, &other)), "is gone");
	assert_int_equal(symlink("/dev/zero", path), 0);
	assert_string_equal(saved_wrong(text, saved_check(folder, &entry)), "is a link, which is not followed");
	assert_string_equal(saved_wrong(text, -EIO), "cannot be read: Input/output error");
	assert_int_equal(unlink(path), 0);
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
	char stray[200], torn[200];
	(void)state;

	put(saved, MODEL, 7, 1, 10);
	put(saved, OTHER, 8, 1, 10);
	struct saved_conversation cut = sealed(MODEL, 9, 5), begun = written(MODEL, 10, 5);
	snprintf(torn, sizeof(torn), "%s/%s", folder, cut.file);
	assert_int_equal(truncate(torn, 4), 0);
	snprintf(stray, sizeof(stray), "%s/0000000000000003-0000000000000009-12x.kv", folder);
	close(open(stray, O_CREAT | O_WRONLY, 0600));
	assert_non_null(next);
	next->folder = folder;
	saved_load(next, models, 2, 0);
	assert_int_equal(next->count, 1);
	const struct saved_conversation *found = saved_find(next, 0, 7);
	assert_non_null(found);
	assert_int_equal(found->tokens, 9);
	assert_int_equal(saved_check(folder, found), 0);
	assert_true(is_there(found->file));
	assert_int_equal(files_in_folder(), 1); /* not OTHER's, nor the stray one, nor what was cut or only begun */
	assert_false(is_there(begun.file));
	models[0].most_bytes = 0; /* `kv_keep` was taken out */
	next->count = 0;
	saved_load(next, models, 2, 0);
	assert_int_equal(next->count, 0);
	assert_int_equal(files_in_folder(), 0);
	next->folder = "/nonexistent";
	saved_load(next, models, 2, 0);
	free(saved);
	free(next);
}

static void what_others_keep_there_stays(void **state)
{
	static const char *const names[] = {
		"passwd", "model.kv", ".hidden", "notes.part", "0000000000000003-0000000000000009-12.txt",
		"0000000000000003-000000000000000-12.kv", "0000000000000003.kv", "000000000000000g-0000000000000009-1-1.kv",
	};
	enum { NAMES = sizeof(names) / sizeof(names[0]) };
	struct saved *saved = fresh();
	char path[200];
	(void)state;

	for (size_t i = 0; i < NAMES; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		close(open(path, O_CREAT | O_WRONLY, 0600));
	}
	saved_load(saved, NULL, 0, 0);
	for (size_t i = 0; i < NAMES; i++) {
		assert_true(is_there(names[i]));
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		assert_int_equal(unlink(path), 0);
	}
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
	empty();
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_go_where_the_share_is_full),
		cmocka_unit_test(the_same_conversation_again_takes_its_place),
		cmocka_unit_test(what_could_not_be_written_whole_goes),
		cmocka_unit_test(a_file_that_is_not_what_was_written_is_known),
		cmocka_unit_test(brought_back_it_is_gone),
		cmocka_unit_test(a_full_table_takes_the_newest),
		cmocka_unit_test(a_new_life_takes_over_what_still_holds),
		cmocka_unit_test(what_others_keep_there_stays),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
