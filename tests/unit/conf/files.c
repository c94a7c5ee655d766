#include "files.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

int files_setup(void **state)
{
	char *folder = xstrdup("/tmp/cotenant-conf-XXXXXX");

	if (!mkdtemp(folder) || chdir(folder) != 0)
		return -1;
	setenv("HOME", "/u/someone", 1);
	setenv("SECRET", "s3cr3t-value", 1);
	*state = folder;
	return 0;
}

int files_teardown(void **state)
{
	char *folder = *state;
	int gone;

	unlink("c.yaml");
	gone = chdir("/");
	gone |= rmdir(folder);
	free(folder);
	return gone;
}

void files_write(const void *bytes, size_t count)
{
	FILE *file = fopen("c.yaml", "we");

	assert(file && fwrite(bytes, 1, count, file) == count);
	assert(fclose(file) == 0);
}

struct conf *files_load(struct buf *said)
{
	struct conf *conf = conf_load("c.yaml", said);

	buf_cstr(said);
	return conf;
}

struct conf *files_load_text(const char *text, struct buf *said)
{
	files_write(text, strlen(text));
	return files_load(said);
}
