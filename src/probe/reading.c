#include "probe/reading.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"

static _Thread_local struct reading *own;

void reading_init(struct reading *reading)
{
	pthread_mutex_init(&reading->lock, NULL);
	reading->fd = -1;
	reading->name[0] = '\0';
	reading->count = 0;
}

void reading_begin(struct reading *reading)
{
	own = reading;
}

static void note(int fd, const char *name)
{
	if (!own)
		return;
	pthread_mutex_lock(&own->lock);
	own->count++;
	own->fd = fd;
	str_copy(own->name, sizeof own->name, str_from(name));
	pthread_mutex_unlock(&own->lock);
}

void reading_note(const char *name)
{
	note(-1, name);
}

void reading_note_open(int fd)
{
	note(fd, "");
}

uint64_t reading_count(struct reading *reading)
{
	pthread_mutex_lock(&reading->lock);
	uint64_t count = reading->count;
	pthread_mutex_unlock(&reading->lock);
	return count;
}

void reading_tell(struct reading *reading, char *out, size_t out_bytes)
{
	char link[32], name[READING_NAME_BYTES];

	pthread_mutex_lock(&reading->lock);
	int fd = reading->fd;
	str_copy(name, sizeof name, str_from(reading->name));
	pthread_mutex_unlock(&reading->lock);
	if (fd >= 0) {
		snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
		ssize_t length = readlink(link, name, sizeof name - 1);
		name[length > 0 ? length : 0] = '\0';
	}
	str_copy(out, out_bytes, str_from(name[0] ? name : "the machine"));
}
