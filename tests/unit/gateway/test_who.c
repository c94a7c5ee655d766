#include "../cmocka_all.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/who.h"

/* The configuration owns its strings, so its fields are not const. */
#define OWN(text) (char[]){ text }

/*
 * One configuration with keys, one without; each case is a request and what
 * must become of it: 0 = it may, with that role; else the status.
 */
static char *hosts[] = { OWN("models.lan"), OWN("ported.lan:8443") };
static char *origins[] = { OWN("https://app.example") };
static char *only_chat[] = { OWN("chat") };

static struct conf_key keys[] = {
	{ .key = OWN("use-key"), .name = OWN("laptop"), .role = CONF_ROLE_USE, .models = { only_chat, 1 } },
	{ .key = OWN("admin-key"), .name = OWN("boss"), .role = CONF_ROLE_ADMIN },
};

static struct conf_listen listens[] = { { .host = OWN("10.1.2.3"), .port = 8778 } };

static struct conf with_keys = {
	.listen = listens,
	.listens = 1,
	.hosts = { hosts, 2 },
	.cors = { origins, 1 },
	.keys = keys,
	.key_count = 2,
};

static struct conf without_keys = { .hosts = { hosts, 2 }, .cors = { origins, 1 } };
static struct conf local_admin = { .local_admin = true };

enum { USE = CONF_ROLE_USE, ADMIN = CONF_ROLE_ADMIN };

struct request {
	const char *what;
	const struct conf *conf;
	enum deed deed;
	const char *host, *origin, *authorization, *api_key, *content_type;
	bool has_body, unix_socket, admin_group, remote;
	uid_t uid;
	int status; /* expected; 0 = may */
	int role;
};

#define LOCAL .host = "localhost:8778"

static const struct request requests[] = {
	/* Host: what a page elsewhere cannot fake */
	{ "localhost", &without_keys, DEED_WORK, .host = "localhost", .role = USE },
	{ "any port", &without_keys, DEED_WORK, .host = "127.0.0.1:1234", .role = USE },
	{ "IPv6", &without_keys, DEED_WORK, .host = "[::1]:8778", .role = USE },
	{ "case", &without_keys, DEED_WORK, .host = "LocalHost", .role = USE },
	{ "configured", &without_keys, DEED_WORK, .host = "models.lan:80", .role = USE },
	{ "configured port", &without_keys, DEED_WORK, .host = "ported.lan:8443", .role = USE },
	{ "another port", &without_keys, DEED_WORK, .host = "ported.lan:80", .status = 403 },
	{ "rebound name", &without_keys, DEED_WORK, .host = "evil.example", .status = 403 },
	{ "rebound name, look", &without_keys, DEED_LOOK, .host = "evil.example", .status = 403 },
	{ "name that ends like one", &without_keys, DEED_WORK, .host = "xlocalhost", .status = 403 },
	{ "name that begins like one", &without_keys, DEED_WORK, .host = "localhost.evil.example",
	  .status = 403 },
	{ "no host", &without_keys, DEED_WORK, .status = 403 },
	{ "listen address", &with_keys, DEED_WORK, .host = "10.1.2.3:8778", .api_key = "use-key",
	  .role = USE },
	{ "listen address of another", &without_keys, DEED_WORK, .host = "10.1.2.3", .status = 403 },

	/* Origin */
	{ "same origin", &without_keys, DEED_WORK, LOCAL, .origin = "http://localhost:8778",
	  .role = USE },
	{ "another port is another origin", &without_keys, DEED_WORK, LOCAL,
	  .origin = "http://localhost:3000", .status = 403 },
	{ "foreign page, work", &without_keys, DEED_WORK, LOCAL, .origin = "http://evil.example",
	  .content_type = "text/plain", .has_body = true, .status = 403 },
	{ "foreign page, look", &without_keys, DEED_LOOK, LOCAL, .origin = "http://evil.example",
	  .role = USE },
	{ "null origin", &without_keys, DEED_WORK, LOCAL, .origin = "null", .status = 403 },
	{ "empty origin", &without_keys, DEED_WORK, LOCAL, .origin = "", .status = 403 },
	{ "allowed page", &without_keys, DEED_WORK, LOCAL, .origin = "https://app.example",
	  .role = USE },
	{ "allowed name, other scheme", &without_keys, DEED_WORK, LOCAL,
	  .origin = "http://app.example", .status = 403 },
	{ "command by a foreign page", &without_keys, DEED_COMMAND, LOCAL,
	  .origin = "http://evil.example", .status = 403 },

	/* keys over TCP */
	{ "no key", &with_keys, DEED_WORK, LOCAL, .status = 401 },
	{ "look needs one too", &with_keys, DEED_LOOK, LOCAL, .status = 401 },
	{ "health does not", &with_keys, DEED_HEALTH, LOCAL, .role = USE },
	{ "bearer", &with_keys, DEED_WORK, LOCAL, .authorization = "Bearer use-key", .role = USE },
	{ "bearer, small", &with_keys, DEED_WORK, LOCAL, .authorization = "bearer  use-key ",
	  .role = USE },
	{ "x-api-key", &with_keys, DEED_WORK, LOCAL, .api_key = "admin-key", .role = ADMIN },
	{ "basic", &with_keys, DEED_LOOK, LOCAL, .authorization = "Basic bWU6YWRtaW4ta2V5",
	  .role = ADMIN }, /* me:admin-key */
	{ "basic, padded", &with_keys, DEED_LOOK, LOCAL, .authorization = "Basic OnVzZS1rZXk=",
	  .role = USE }, /* :use-key */
	{ "basic, not base64", &with_keys, DEED_LOOK, LOCAL, .authorization = "Basic !!!!",
	  .status = 401 },
	{ "wrong key", &with_keys, DEED_WORK, LOCAL, .authorization = "Bearer use-kez",
	  .status = 401 },
	{ "part of a key", &with_keys, DEED_WORK, LOCAL, .authorization = "Bearer use-ke",
	  .status = 401 },
	{ "empty key", &with_keys, DEED_WORK, LOCAL, .authorization = "Bearer ", .status = 401 },
	{ "change by use", &with_keys, DEED_CHANGE, LOCAL, .api_key = "use-key", .status = 403 },
	{ "change by admin", &with_keys, DEED_CHANGE, LOCAL, .api_key = "admin-key", .role = ADMIN },
	{ "a key does not open the door to other hosts", &with_keys, DEED_WORK,
	  .host = "evil.example", .api_key = "admin-key", .status = 403 },

	/* TCP without keys */
	{ "change", &without_keys, DEED_CHANGE, LOCAL, .status = 403 },
	{ "a key nobody configured", &without_keys, DEED_WORK, LOCAL,
	  .authorization = "Bearer sk-none", .role = USE },
	{ "local admin", &local_admin, DEED_CHANGE, LOCAL, .role = ADMIN },
	{ "local admin from elsewhere", &local_admin, DEED_CHANGE, LOCAL, .remote = true,
	  .status = 403 },

	/* bodies that change state */
	{ "form", &local_admin, DEED_COMMAND, LOCAL, .has_body = true,
	  .content_type = "text/plain", .status = 415 },
	{ "no type", &local_admin, DEED_COMMAND, LOCAL, .has_body = true, .status = 415 },
	{ "json", &local_admin, DEED_COMMAND, LOCAL, .has_body = true,
	  .content_type = "application/json; charset=utf-8", .role = ADMIN },
	{ "json by another name", &local_admin, DEED_COMMAND, LOCAL, .has_body = true,
	  .content_type = "application/jsonx", .status = 415 },
	{ "nothing", &local_admin, DEED_COMMAND, LOCAL, .role = ADMIN },
	{ "work may be anything", &without_keys, DEED_WORK, LOCAL, .has_body = true,
	  .content_type = "multipart/form-data", .role = USE },

	/* unix sockets: neither Host nor Origin nor key */
	{ "ourselves", &with_keys, DEED_CHANGE, .unix_socket = true, .role = ADMIN },
	{ "root", &with_keys, DEED_CHANGE, .unix_socket = true, .uid = 0, .role = ADMIN },
	{ "another user", &with_keys, DEED_WORK, .unix_socket = true, .uid = 4711, .role = USE },
	{ "another user, change", &with_keys, DEED_CHANGE, .unix_socket = true, .uid = 4711,
	  .status = 403 },
	{ "admin group", &with_keys, DEED_CHANGE, .unix_socket = true, .uid = 4711,
	  .admin_group = true, .role = ADMIN },
	{ "another user with a key", &with_keys, DEED_CHANGE, .unix_socket = true, .uid = 4711,
	  .api_key = "admin-key", .role = ADMIN },
	{ "any host and origin", &with_keys, DEED_WORK, .unix_socket = true, .host = "evil.example",
	  .origin = "http://evil.example", .role = ADMIN },
};

static struct who_ask ask_of(const struct request *request)
{
	return (struct who_ask){
		.deed = request->deed,
		.unix_socket = request->unix_socket,
		.uid = request->uid || !request->unix_socket ? request->uid : getuid(),
		.in_admin_group = request->admin_group,
		.loopback = !request->remote,
		.fd = -1,
		.has_body = request->has_body,
		.host = str_from(request->host),
		.origin = str_from(request->origin),
		.authorization = str_from(request->authorization),
		.api_key = str_from(request->api_key),
		.content_type = str_from(request->content_type),
	};
}

static void test_the_table_of_who_may(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		const struct request *request = &requests[i];
		struct who_rules *rules = who_rules_new(request->conf);
		struct who_ask ask = ask_of(request);
		struct who who;
		bool may = who_may(rules, &ask, &who);

		if (may != (request->status == 0) || (!may && who.status != request->status) ||
		    (may && who.role != (enum conf_role)request->role))
			fail_msg("%s: may %d, status %d, role %d", request->what, may, who.status,
			         who.role);
		if (!may)
			assert_true(who.code && who.text);
		who_rules_free(rules);
	}
}

static void test_an_allowed_page_is_told_so_and_ours_need_not_be(void **state)
{
	struct who_rules *rules = who_rules_new(&without_keys);
	struct who_ask ask = { .deed = DEED_WORK, .fd = -1, .host = STR("localhost:1"),
		               .origin = STR("https://app.example") };
	struct who who;

	(void)state;
	assert_true(who_may(rules, &ask, &who));
	assert_true(str_is(who.allow_origin, "https://app.example"));
	ask.origin = STR("http://localhost:1");
	assert_true(who_may(rules, &ask, &who));
	assert_int_equal(who.allow_origin.length, 0);

	ask.origin = STR("http://evil.example");
	ask.deed = DEED_LOOK;
	assert_true(who_may(rules, &ask, &who));
	assert_int_equal(who.allow_origin.length, 0);
	assert_false(who_may_preflight(rules, &ask, &who)); /* whatever it says it will do */
	who_rules_free(rules);
}

/* Where we listen on all addresses, the Host may be the one that was reached. */
static void test_own_addresses_count_where_all_are_listened_on(void **state)
{
	struct conf_listen all = { .host = OWN("0.0.0.0") }, one = { .host = OWN("10.9.9.9") };
	struct conf conf = { .listen = &all, .listens = 1 };
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(address);
	struct who_ask ask = { .deed = DEED_WORK, .host = STR("127.3.2.1:80") };
	struct who who;

	(void)state;
	inet_pton(AF_INET, "127.3.2.1", &address.sin_addr);
	ask.fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(ask.fd, (struct sockaddr *)&address, bytes), 0);

	struct who_rules *rules = who_rules_new(&conf);
	assert_true(who_may(rules, &ask, &who));
	ask.host = STR("127.3.2.2:80");
	assert_false(who_may(rules, &ask, &who));
	who_rules_free(rules);

	conf.listen = &one;
	rules = who_rules_new(&conf);
	ask.host = STR("127.3.2.1:80");
	assert_false(who_may(rules, &ask, &who));
	who_rules_free(rules);
	close(ask.fd);
}

static void test_a_key_is_bound_to_its_models(void **state)
{
	char *by_alias[] = { OWN("small-*") };
	char *aliases[] = { OWN("small-*") };
	struct conf_model models[] = {
		{ .name = OWN("chat") },
		{ .name = OWN("other"), .aliases = { aliases, 1 } },
	};
	struct conf conf = { .models = models, .model_count = 2 };
	struct conf_key of_alias = { .name = OWN("guest"), .models = { by_alias, 1 } };

	(void)state;
	assert_true(who_may_use(&conf, &keys[0], 0));
	assert_false(who_may_use(&conf, &keys[0], 1));
	assert_true(who_may_use(&conf, &keys[1], 1));
	assert_true(who_may_use(&conf, NULL, 1));
	assert_false(who_may_use(&conf, &of_alias, 0));
	assert_true(who_may_use(&conf, &of_alias, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_table_of_who_may),
		cmocka_unit_test(test_an_allowed_page_is_told_so_and_ours_need_not_be),
		cmocka_unit_test(test_own_addresses_count_where_all_are_listened_on),
		cmocka_unit_test(test_a_key_is_bound_to_its_models),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
