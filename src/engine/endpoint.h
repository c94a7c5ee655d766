#ifndef ENGINE_ENDPOINT_H
#define ENGINE_ENDPOINT_H

#include <stdint.h>

/* Where one engine listens, for us alone. */
struct endpoint {
	char path[108];       /* unix socket; "" = TCP on 127.0.0.1 */
	uint16_t port;
	char key[65];         /* sent as Authorization: Bearer; "" = none. Never logged */
};

#endif
