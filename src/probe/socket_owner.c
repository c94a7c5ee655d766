#include "probe/socket_owner.h"

#include <dirent.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "probe/lines.h"

enum { WORDS = 4, LISTENING = 0x0A, LINK_BYTES = 64 };

/* An address as the kernel's tables have it: words in its own byte order; v4 in the last of them. */
struct wanted {
	uint32_t word[WORDS];
	bool v6;
	uint16_t port;
};

static struct wanted wanted_of(const struct sockaddr *address)
{
	struct wanted wanted = { .v6 = address->sa_family == AF_INET6 };

	if (wanted.v6) {
		const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
		memcpy(wanted.word, &v6->sin6_addr, sizeof(wanted.word));
		wanted.port = ntohs(v6->sin6_port);
	} else {
		const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
		wanted.word[WORDS - 1] = v4->sin_addr.s_addr;
		wanted.port = ntohs(v4->sin_port);
	}
	return wanted;
}

static bool hex(struct str text, uint32_t *out)
{
	uint32_t value = 0;

	for (size_t i = 0; i < text.length; i++) {
		char c = text.data[i];
		uint32_t digit = c >= '0' && c <= '9' ? (uint32_t)(c - '0')
		               : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
		                                      : 16;
		if (digit == 16 || i == 8)
			return false;
		value = value * 16 + digit;
	}
	*out = value;
	return text.length > 0;
}

/* "0100007F:1F90" of a listening socket: does it take connections to the wanted address? */
static bool takes(struct str local, const struct wanted *wanted, bool *exactly)
{
	struct str digits, port_text;
	uint32_t word[WORDS] = { 0 }, port;
	bool any = true;

	digits = str_cut(local, ':', &port_text);
	if (!hex(port_text, &port) || port != wanted->port || digits.length % 8 || digits.length > 8 * WORDS)
		return false;
	size_t count = digits.length / 8;
	for (size_t i = 0; i < count; i++) {
		if (!hex((struct str){ digits.data + 8 * i, 8 }, &word[WORDS - count + i]))
			return false;
		any = any && word[WORDS - count + i] == 0;
	}
	*exactly = (count == WORDS) == wanted->v6 && memcmp(word, wanted->word, sizeof(word)) == 0;
	return *exactly || any;
}

/* Looks through one table; an exact address counts more than a wildcard. */
static void look_in(const char *root, const char *table, const struct wanted *wanted, uint64_t *inode,
                    bool *exact)
{
	enum { LOCAL = 1, STATE = 3, INODE = 9, FIELDS = 10 };
	struct lines lines;
	struct str line;

	if (lines_open(&lines, root, table) < 0)
		return;
	while (lines_next(&lines, &line)) {
		struct str field[FIELDS] = { { NULL, 0 } };
		struct str rest = line;
		uint32_t state, count = 0;
		uint64_t number;
		bool exactly;
		while (rest.data && count < FIELDS) {
			struct str next = str_cut(rest, ' ', &rest);
			if (next.length)
				field[count++] = next;
		}
		if (count < FIELDS || !hex(field[STATE], &state) || state != LISTENING ||
		    !str_to_u64(field[INODE], &number) || !takes(field[LOCAL], wanted, &exactly))
			continue;
		if (*inode && (*exact || !exactly))
			continue;
		*inode = number;
		*exact = exactly;
	}
	lines_close(&lines);
}

static bool holds(const char *root, const char *pid, const char *target)
{
	char path[PATH_MAX], link[LINK_BYTES];
	struct dirent *entry;
	bool found = false;

	snprintf(path, sizeof(path), "%s/proc/%s/fd", root, pid);
	DIR *folder = opendir(path);
	if (!folder)
		return false;
	while (!found && (entry = readdir(folder))) {
		ssize_t length = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link));
		found = length > 0 && (size_t)length == strlen(target) &&
		        memcmp(link, target, (size_t)length) == 0;
	}
	closedir(folder);
	return found;
}

pid_t socket_owner(const char *root, const struct sockaddr *address)
{
	struct wanted wanted = wanted_of(address);
	char path[PATH_MAX], target[LINK_BYTES];
	struct dirent *entry;
	uint64_t inode = 0, pid, least = 0;
	bool exact = false;

	if (!wanted.v6)
		look_in(root, "/proc/net/tcp", &wanted, &inode, &exact);
	look_in(root, "/proc/net/tcp6", &wanted, &inode, &exact);
	if (!inode)
		return 0;
	snprintf(target, sizeof(target), "socket:[%llu]", (unsigned long long)inode);
	snprintf(path, sizeof(path), "%s/proc", root);
	DIR *folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		bool is_pid = str_to_u64(str_from(entry->d_name), &pid) && pid > 0 && pid <= INT32_MAX;
		if (is_pid && (!least || pid < least) && holds(root, entry->d_name, target))
			least = pid;
	}
	if (folder)
		closedir(folder);
	return (pid_t)least;
}
