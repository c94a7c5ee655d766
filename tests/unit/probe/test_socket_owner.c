/* Who listens: on this machine, with sockets of our own, and in tables that make no sense. */
#include "../cmocka_all.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/socket_owner.h"

union any_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static union any_address loopback(int family)
{
	union any_address address = { .any.sa_family = (sa_family_t)family };

	if (family == AF_INET6)
		address.v6.sin6_addr = in6addr_loopback;
	else
		address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static int listen_at(union any_address *address)
{
	socklen_t bytes = sizeof(*address);
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, &address->any, address->any.sa_family == AF_INET6 ? sizeof(address->v6)
	                                                                          : sizeof(address->v4)) < 0 ||
	    listen(fd, 1) < 0 || getsockname(fd, &address->any, &bytes) < 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

static void a_socket_of_our_own_is_ours(void **state)
{
	(void)state;

	for (int family = AF_INET; family <= AF_INET6; family += AF_INET6 - AF_INET) {
		union any_address address = loopback(family);
		int fd = listen_at(&address);
		if (fd < 0)
			continue; /* this machine has no such addresses */
		assert_int_equal(socket_owner("", &address.any), getpid());
		close(fd);
		assert_int_equal(socket_owner("", &address.any), 0);
	}
}

static void a_wildcard_takes_every_address(void **state)
{
	union any_address address = { .v4.sin_family = AF_INET };
	(void)state;

	int fd = listen_at(&address);
	assert_true(fd >= 0);
	address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(socket_owner("", &address.any), getpid());
	close(fd);
}

static void make(const char *root, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void tables_that_make_no_sense_name_nobody(void **state)
{
	static const char *const tables[] = {
		"",
		"  sl  local_address\n",
		"   0: 0100007F:1F90 00000000:0000 0A\n",
		"   0: 0100007F:1F9Z 00000000:0000 0A 0:0 0:0 0 0 0 77\n",
		"   0: 0100007:1F90 00000000:0000 0A 0:0 0:0 0 0 0 77\n",
		"   0: 0100007F:1F90 00000000:0000 01 0:0 0:0 0 0 0 77\n",
		"   0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 -7\n",
		"   0: 0100007F 00000000:0000 0A 0:0 0:0 0 0 0 77\n",
		"   0: 0200007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 77\n",
	};
	char root[] = "/tmp/owner-XXXXXX", path[512];
	union any_address address = loopback(AF_INET);
	(void)state;

	address.v4.sin_port = htons(8080);
	assert_non_null(mkdtemp(root));
	for (const char *const *folder = (const char *const[]){ "/proc", "/proc/net", "/proc/12", "/proc/12/fd", "/proc/7", "/proc/7/fd", NULL };
	     *folder; folder++) {
		snprintf(path, sizeof(path), "%s%s", root, *folder);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(path, sizeof(path), "%s/proc/12/fd/3", root);
	assert_int_equal(symlink("socket:[77]", path), 0);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		make(root, "proc/net/tcp", tables[i]);
		assert_int_equal(socket_owner(root, &address.any), 0);
	}
	make(root, "proc/net/tcp",
	     "   0: 00000000:1F90 00000000:0000 0A 0:0 0:0 0 0 0 66\n"
	     "   1: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0 77\n");
	assert_int_equal(socket_owner(root, &address.any), 12);
	/* Shared by a parent and its children: the one that was there first. */
	snprintf(path, sizeof(path), "%s/proc/7/fd/9", root);
	assert_int_equal(symlink("socket:[77]", path), 0);
	assert_int_equal(socket_owner(root, &address.any), 7);
	for (const char *const *left = (const char *const[]){ "proc/12/fd/3", "proc/7/fd/9", "proc/net/tcp", "proc/12/fd",
	                                                     "proc/7/fd", "proc/12", "proc/7", "proc/net", "proc", "", NULL };
	     *left; left++) {
		snprintf(path, sizeof(path), "%s/%s", root, *left);
		assert_int_equal(remove(path), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_socket_of_our_own_is_ours),
		cmocka_unit_test(a_wildcard_takes_every_address),
		cmocka_unit_test(tables_that_make_no_sense_name_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
