#include "engine/process.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

static struct str read_file(const char *path, char *out, size_t out_bytes)
{
	size_t length = 0;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return (struct str){ "", 0 };
	while (length < out_bytes && (got = read(fd, out + length, out_bytes - length)) > 0)
		length += (size_t)got;
	close(fd);
	return (struct str){ out, length };
}

/* The number behind `name` and blanks, at a line's start. */
static bool number_of(struct str text, const char *name, uint64_t *out)
{
	while (text.data) {
		struct str line = str_cut(text, '\n', &text);
		if (!str_starts(line, name))
			continue;
		line.data += strlen(name);
		line.length -= strlen(name);
		return str_to_u64(str_trim(line), out);
	}
	return false;
}

int64_t process_bytes_moved(pid_t pid)
{
	char path[64];
	char text[1024];
	uint64_t bytes = 0;
	uint64_t pages = 0;

	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	bool any = number_of(read_file(path, text, sizeof(text)), "rchar:", &bytes);
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	struct str rest;
	str_cut(read_file(path, text, sizeof(text)), ' ', &rest);
	if (rest.data && str_to_u64(str_cut(rest, ' ', &rest), &pages))
		any = true;
	uint64_t resident = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return any ? (int64_t)(resident > bytes ? resident : bytes) : -1;
}
