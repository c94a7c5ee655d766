#include "probe/handles.h"

#include <unistd.h>

static struct handle *find(struct handles *handles, uint64_t name)
{
	for (uint32_t i = 0; i < handles->count; i++)
		if (handles->file[i].name == name)
			return &handles->file[i];
	return NULL;
}

static void drop(struct handles *handles, struct handle *file)
{
	close(file->fd);
	*file = handles->file[--handles->count];
}

/* Opened by lines_open(): from now on it stays so. */
static int keep(struct handles *handles, struct lines *lines, uint64_t name)
{
	handles->file[handles->count++] = (struct handle){ name, lines->fd, true };
	return lines_again(lines, lines->fd);
}

int handles_lines(struct handles *handles, struct lines *lines, const char *root, const char *name)
{
	uint64_t key = str_hash(str_from(name));
	struct handle *file = handles && root[0] == '\0' ? find(handles, key) : NULL;

	if (file && lines_again(lines, file->fd) == 0) {
		file->asked = true;
		return 0;
	}
	if (file)
		drop(handles, file);
	int rc = lines_open(lines, root, name);
	if (rc < 0 || !handles || root[0] != '\0' || handles->count == HANDLES_MAX)
		return rc;
	return keep(handles, lines, key);
}

void handles_sweep(struct handles *handles)
{
	for (uint32_t i = handles->count; i > 0; i--) {
		struct handle *file = &handles->file[i - 1];
		if (!file->asked)
			drop(handles, file);
		else
			file->asked = false;
	}
}

void handles_close(struct handles *handles)
{
	while (handles->count > 0)
		drop(handles, &handles->file[0]);
}
