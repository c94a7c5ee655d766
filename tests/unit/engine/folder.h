#ifndef TEST_ENGINE_FOLDER_H
#define TEST_ENGINE_FOLDER_H

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

/* A folder for the files of a group of tests; gone with all of them when it is over. */
static char folder[] = "/tmp/test-engine-XXXXXX";

static inline int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_folder(void **state)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	(void)state;

	while (dir && (entry = readdir(dir)))
		unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
	return rmdir(folder);
}

#endif
