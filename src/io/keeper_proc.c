#include "io/keeper_proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

size_t keeper_decimal(char out[21], unsigned long long value)
{
	char reversed[20];
	size_t length = 0;

	do {
		reversed[length++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	for (size_t i = 0; i < length; i++)
		out[i] = reversed[length - 1 - i];
	out[length] = '\0';
	return length;
}

static int open_of(pid_t pid, const char *file)
{
	char path[64] = "/proc/";
	size_t at = 6;

	at += keeper_decimal(path + at, (unsigned long long)pid);
	path[at++] = '/';
	memcpy(path + at, file, strlen(file) + 1);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static ssize_t read_some(int fd, void *out, size_t bytes)
{
	ssize_t length;

	do
		length = read(fd, out, bytes);
	while (length < 0 && errno == EINTR);
	return length;
}

ssize_t keeper_children_by_list(pid_t *out, size_t max)
{
	char text[4096];
	size_t count = 0;
	pid_t number = 0;
	ssize_t length;
	int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while ((length = read_some(fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < length; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				number = number * 10 + (text[i] - '0');
			} else {
				if (number && count < max)
					out[count++] = number;
				number = 0;
			}
		}
	}
	close(fd);
	return (ssize_t)count;
}

/* The numbers behind the command name, which may itself hold blanks and brackets. */
static bool parent_and_session(pid_t pid, long *out_parent, long *out_session)
{
	char text[512];
	long fields[3] = { 0 };
	int fd = open_of(pid, "stat");

	if (fd < 0)
		return false;
	ssize_t length = read_some(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';

	const char *at = strrchr(text, ')');
	if (!at || strlen(at) < 5)
		return false;
	at += 4; /* ") S " */
	for (int i = 0; i < 3; i++) {
		while (*at >= '0' && *at <= '9')
			fields[i] = fields[i] * 10 + (*at++ - '0');
		while (*at == ' ')
			at++;
	}
	*out_parent = fields[0];
	*out_session = fields[2];
	return true;
}

static pid_t number_of(const char *name)
{
	pid_t number = 0;

	for (; *name; name++) {
		if (*name < '0' || *name > '9')
			return 0;
		number = number * 10 + (*name - '0');
	}
	return number;
}

ssize_t keeper_children_by_scan(pid_t *out, size_t max)
{
	_Alignas(struct dirent64) char block[4096];
	const long self = getpid();
	size_t count = 0;
	long length;
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	while ((length = syscall(SYS_getdents64, fd, block, sizeof(block))) > 0) {
		for (long at = 0; at < length;) {
			const struct dirent64 *entry = (const void *)(block + at);
			pid_t pid = number_of(entry->d_name);
			long parent;
			long session;

			at += entry->d_reclen;
			if (pid && parent_and_session(pid, &parent, &session) && parent == self &&
			    count < max)
				out[count++] = pid;
		}
	}
	close(fd);
	return (ssize_t)count;
}

pid_t keeper_session(pid_t pid)
{
	long parent;
	long session;

	return parent_and_session(pid, &parent, &session) ? (pid_t)session : -1;
}

bool keeper_environ_has(pid_t pid, const char *variable)
{
	char text[4096];
	const size_t wanted = strlen(variable);
	size_t matched = 0; /* bytes of `variable` seen in the current one; SIZE_MAX: it differs */
	ssize_t length;
	size_t total = 0;
	bool found = false;
	int fd = open_of(pid, "environ");

	if (fd < 0)
		return false;
	while (!found && total < 64 * 1024 && (length = read_some(fd, text, sizeof(text))) > 0) {
		total += (size_t)length;
		for (ssize_t i = 0; i < length && !found; i++) {
			if (text[i] == '\0') {
				found = matched == wanted;
				matched = 0;
			} else if (matched != SIZE_MAX) {
				bool same = matched < wanted && text[i] == variable[matched];
				matched = same ? matched + 1 : SIZE_MAX;
			}
		}
	}
	close(fd);
	return found;
}
