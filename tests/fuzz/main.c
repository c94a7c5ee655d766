/*
 * Stands in for libFuzzer where it is not linked: gives each file named on the
 * command line, or lying in a folder named there, to the target once, and then
 * cut short at many lengths, so that each corpus also tests the ends of things.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CUT_MAX = 2048 };

/* In a block of its own length, so that a sanitizer sees a read past the end. */
static void give(const char *data, size_t size)
{
	char *copy = xmalloc(size + 1);

	if (size > 0)
		memcpy(copy + 1, data, size);
	LLVMFuzzerTestOneInput((const uint8_t *)copy + 1, size);
	free(copy);
}

static unsigned replay_file(const char *path)
{
	struct buf bytes = BUF_INIT;
	FILE *file = fopen(path, "rb");
	size_t count;

	if (!file) {
		perror(path);
		exit(1);
	}
	while ((count = fread(buf_reserve(&bytes, 65536), 1, 65536, file)) > 0)
		buf_commit(&bytes, count);
	fclose(file);
	struct str all = buf_str(&bytes);
	give(all.data, all.length);
	for (size_t cut = 0; cut < all.length && cut < CUT_MAX; cut += 1 + cut / 128)
		give(all.data, cut);
	buf_release(&bytes);
	return 1;
}

static unsigned replay(const char *path)
{
	struct dirent *entry;
	unsigned count = 0;
	DIR *dir = opendir(path);

	if (!dir)
		return replay_file(path);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		char *inside = xasprintf("%s/%s", path, entry->d_name);
		count += replay(inside);
		free(inside);
	}
	closedir(dir);
	return count;
}

int main(int argc, char **argv)
{
	unsigned count = 0;

	for (int i = 1; i < argc; i++)
		count += replay(argv[i]);
	printf("%u files\n", count);
	return count > 0 ? 0 : 1;
}
