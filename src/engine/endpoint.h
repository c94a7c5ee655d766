#ifndef ENGINE_ENDPOINT_H
#define ENGINE_ENDPOINT_H

#include <netinet/in.h>
#include <stdint.h>

/*
 * Where one engine listens, for us alone; or a server that we do not run, at
 * whatever address it has.
 */
struct endpoint {
	char path[108];       /* unix socket; "" = TCP */
	uint16_t port;        /* on 127.0.0.1, unless `address` says otherwise */
	char key[65];         /* sent as Authorization: Bearer; "" = none. Never logged */
	const char *authority; /* how requests name it (Host); NULL = localhost. The model's configuration has it */
	union {
		struct sockaddr any; /* sa_family 0: none */
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
};

/* The address to connect to; not for one with a path. */
static inline void endpoint_address(const struct endpoint *endpoint, struct sockaddr_storage *out)
{
	struct sockaddr_in loopback = { .sin_family = AF_INET,
		                        .sin_port = htons(endpoint->port),
		                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	if (endpoint->address.any.sa_family == AF_INET6)
		*(struct sockaddr_in6 *)out = endpoint->address.v6;
	else
		*(struct sockaddr_in *)out =
			endpoint->address.any.sa_family ? endpoint->address.v4 : loopback;
}

#endif
