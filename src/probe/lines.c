#include "probe/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/reading.h"

/* No counter of a real machine comes near; sums of a few thousand of them still fit. */
#define NUMBER_MOST (INT64_C(1) << 50)

static int open_below(const char *root, const char *name)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof path, "%s%s", root, name);
	if (length < 0 || (size_t)length >= sizeof path)
		return -ENAMETOOLONG;
	reading_note(path);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

static ssize_t read_again(int fd, void *out, size_t size)
{
	ssize_t count;
	do
		count = read(fd, out, size);
	while (count < 0 && errno == EINTR);
	return count;
}

static ssize_t read_at(int fd, void *out, size_t size, size_t at)
{
	ssize_t count;
	do
		count = pread(fd, out, size, (off_t)at);
	while (count < 0 && errno == EINTR);
	return count;
}

static void begin(struct lines *lines, int fd)
{
	lines->start = lines->end = lines->total = 0;
	lines->at_end = lines->stays = lines->one_read = false;
	lines->fd = fd;
}

int lines_open(struct lines *lines, const char *root, const char *name)
{
	begin(lines, open_below(root, name));
	return lines->fd < 0 ? lines->fd : 0;
}

void lines_close(struct lines *lines)
{
	if (lines->fd >= 0 && !lines->stays)
		close(lines->fd);
	lines->fd = -1;
}

static bool is_all(const struct lines *lines, size_t count, size_t wanted)
{
	return lines->one_read && count < wanted;
}

/* 0, or a negative errno, which ends it too. */
static int fill(struct lines *lines)
{
	memmove(lines->window, lines->window + lines->start, lines->end - lines->start);
	lines->end -= lines->start;
	lines->start = 0;
	size_t wanted = LINES_WINDOW - lines->end;
	char *to = lines->window + lines->end;
	ssize_t count = lines->stays ? read_at(lines->fd, to, wanted, lines->total) : read_again(lines->fd, to, wanted);
	if (count <= 0 || lines->total + (size_t)count > LINES_BYTES_MOST) {
		lines->at_end = true;
		return count < 0 ? -errno : 0;
	}
	lines->end += (size_t)count;
	lines->total += (size_t)count;
	lines->at_end = is_all(lines, (size_t)count, wanted);
	return 0;
}

int lines_again(struct lines *lines, int fd)
{
	begin(lines, fd);
	lines->stays = true;
	reading_note_open(fd);
	return fill(lines);
}

void lines_in_one_read(struct lines *lines)
{
	lines->one_read = true;
	lines->at_end = lines->at_end || (lines->total > 0 && is_all(lines, lines->total, LINES_WINDOW));
}

bool lines_next(struct lines *lines, struct str *line)
{
	for (;;) {
		const char *start = lines->window + lines->start;
		size_t have = lines->end - lines->start;
		const char *newline = have ? memchr(start, '\n', have) : NULL;
		if (newline) {
			*line = (struct str){ start, (size_t)(newline - start) };
			lines->start += line->length + 1;
			return true;
		}
		if (have == LINES_WINDOW || (lines->at_end && have > 0)) {
			*line = (struct str){ start, have };
			lines->start = lines->end;
			return true;
		}
		if (lines->at_end)
			return false;
		fill(lines);
	}
}

int lines_read_once(const char *root, const char *name, char *out, size_t size)
{
	int fd = open_below(root, name);

	out[0] = '\0';
	if (fd < 0)
		return fd;
	ssize_t count = read_again(fd, out, size - 1);
	int code = count < 0 ? -errno : (int)count;
	close(fd);
	out[code > 0 ? code : 0] = '\0';
	return code;
}

int lines_read_all(const char *root, const char *name, char *out, size_t size)
{
	size_t length = 0;
	int fd = open_below(root, name);

	out[0] = '\0';
	if (fd < 0)
		return fd;
	while (length < size - 1) {
		ssize_t count = read_again(fd, out + length, size - 1 - length);
		if (count < 0) {
			int code = -errno;
			close(fd);
			return code;
		}
		if (count == 0)
			break;
		length += (size_t)count;
	}
	close(fd);
	out[length] = '\0';
	return (int)length;
}

bool lines_number(struct str text, int64_t *value, struct str *rest)
{
	size_t i = 0;
	int64_t number = 0;

	while (i < text.length && (text.data[i] == ' ' || text.data[i] == '\t'))
		i++;
	size_t first = i;
	for (; i < text.length && text.data[i] >= '0' && text.data[i] <= '9'; i++)
		if (number < NUMBER_MOST)
			number = number * 10 + (text.data[i] - '0');
	if (i == first)
		return false;
	*value = number < NUMBER_MOST ? number : NUMBER_MOST;
	if (rest)
		*rest = (struct str){ text.data + i, text.length - i };
	return true;
}

bool lines_field(struct str line, struct str *name, int64_t *value)
{
	struct str rest;
	*name = str_cut(line, ':', &rest);
	return rest.data && lines_number(rest, value, NULL);
}
