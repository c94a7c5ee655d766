#ifndef GATEWAY_WHO_H
#define GATEWAY_WHO_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"
#include "conf/conf.h"

/*
 * who - may this request do what it asks for, and in which role?
 *
 * A browser on this machine will carry anybody's page to a port on loopback, so
 * over TCP the Host must be a name of ours and an Origin one that is allowed,
 * before anything else is looked at. Then keys: where some are configured one
 * of them is needed, compared in constant time by digest. A unix socket says
 * itself who its peer is; there is neither Host nor Origin to check.
 *
 * The answer is a role and the key that gave it, or a status and the words for
 * it. Nothing here keeps state or does I/O, but for the one question which
 * address a client reached, asked only where we listen on all of them.
 */
struct who_rules;

/* `conf` must live as long as the rules and every key they returned are used. */
struct who_rules *who_rules_new(const struct conf *conf);
void who_rules_free(struct who_rules *rules);

/* What the request is about to do. */
enum deed {
	DEED_HEALTH,  /* /healthz: needs no key */
	DEED_LOOK,    /* reads */
	DEED_WORK,    /* inference */
	DEED_COMMAND, /* state-changing, and the endpoint itself tells which role it takes */
	DEED_CHANGE,  /* state-changing: role admin */
};

struct who_ask {
	enum deed deed;
	bool unix_socket;
	uid_t uid;              /* of the unix peer */
	bool in_admin_group;
	bool loopback;          /* the TCP peer is on this machine */
	int fd;                 /* of the TCP connection; -1 = do not ask it */
	bool has_body;          /* one that changes state must be JSON, as a page's form cannot be */
	struct str host, origin, authorization, api_key, content_type; /* {NULL, 0}: absent */
};

struct who {
	enum conf_role role;
	const struct conf_key *key; /* NULL: none was used */
	struct str allow_origin;    /* for Access-Control-Allow-Origin; "" = send none */
	bool foreign_page;          /* its Origin may look and no more */
	int status;                 /* where refused: 401, 403, 415 */
	const char *code, *text;
};

/* True: go on. False: status, code and text are set. */
bool who_may(const struct who_rules *rules, const struct who_ask *ask, struct who *out);

/* May a page of that origin ask at all (a preflight)? Host is checked, too. */
bool who_may_preflight(const struct who_rules *rules, const struct who_ask *ask, struct who *out);

/* The refusals of one who turns out to want more than a look: of a foreign page, of role use. */
bool who_refuse_page(struct who *out);
bool who_refuse_use(struct who *out);

/* May the key use that model? Every key may that names none. */
bool who_may_use(const struct conf *conf, const struct conf_key *key, uint32_t model);

#endif
