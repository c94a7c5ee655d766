#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "conf/bind.h"

enum { SOCKET_PATH_MAX = 107 }; /* what sockaddr_un holds, less its terminator */

static bool refuse(struct binder *binder, struct place at, struct str text, const char *what,
                   const char *instead)
{
	char said[EXCERPT];

	bind_error(binder, at, "", "'%s' %s; try: %s", excerpt(said, text), what, instead);
	return false;
}

static bool take_unix(struct binder *binder, struct place at, struct str text, struct str path,
                      struct conf_listen *out)
{
	const char *home = getenv("HOME");
	char *whole;

	if (str_starts(path, "~/") && home && *home)
		whole = xasprintf("%s%.*s", home, (int)path.length - 1, path.data + 1);
	else
		whole = xstrndup(path.data, path.length);
	if (whole[0] != '/' || strlen(whole) > SOCKET_PATH_MAX) {
		bool relative = whole[0] != '/';
		free(whole);
		return refuse(binder, at, text,
		              relative ? "is not an absolute path" : "is longer than a socket's path may be",
		              "unix:/run/cotenant/http.sock");
	}
	*out = (struct conf_listen){ .path = whole, .loopback = true };
	return true;
}

static bool is_loopback(struct str host)
{
	return str_starts(host, "127.") || str_is(host, "::1") || str_starts(host, "::ffff:127.");
}

/* "8080" and ":8080" are meant for this machine; where it is no port either, the default shows the form. */
static bool refuse_bare(struct binder *binder, const struct field *field, struct place at, struct str text,
                        struct str port)
{
	char whole[32];
	uint64_t number;
	bool is_port = str_to_u64(port, &number) && number <= 65535;

	snprintf(whole, sizeof(whole), "127.0.0.1:%u", is_port ? (unsigned)number : 0);
	return refuse(binder, at, text, "is not host:port", is_port ? whole : field->fallback);
}

bool bind_listen(struct binder *binder, const struct field *field, struct place at,
                 struct str text, struct conf_listen *out)
{
	unsigned char address[sizeof(struct in6_addr)];
	char name[INET6_ADDRSTRLEN];
	struct str host = text, port = { NULL, 0 };
	uint64_t number;
	bool v6 = text.length && text.data[0] == '[';

	if (str_starts(text, "unix:"))
		return take_unix(binder, at, text, (struct str){ text.data + 5, text.length - 5 }, out);
	if (v6) {
		host = str_cut((struct str){ text.data + 1, text.length - 1 }, ']', &port);
		if (port.data && port.length && port.data[0] == ':')
			str_cut(port, ':', &port);
		else
			port = (struct str){ NULL, 0 };
	} else {
		host = str_cut(text, ':', &port);
	}
	if (!v6 && port.length && memchr(port.data, ':', port.length))
		return refuse(binder, at, text, "is not host:port",
		              "an IPv6 address in brackets, such as [::1]:8778");
	if (!port.data || host.length == 0)
		return refuse_bare(binder, field, at, text, port.data ? port : host);
	if (!str_to_u64(port, &number) || number > 65535)
		return refuse(binder, at, text, "has no such port", "a port from 0 to 65535");
	if (str_is(host, "localhost"))
		host = STR("127.0.0.1");
	if (!str_copy(name, sizeof(name), host) ||
	    inet_pton(v6 ? AF_INET6 : AF_INET, name, address) != 1)
		return refuse(binder, at, text, "is not an address of this machine",
		              "127.0.0.1, or 0.0.0.0 for all; names are not looked up");
	*out = (struct conf_listen){
		.host = xstrndup(host.data, host.length), .port = (uint16_t)number,
		.loopback = is_loopback(host),
	};
	return true;
}
