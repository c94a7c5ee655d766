#include "gateway/who.h"

#include <assert.h>
#include <netdb.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "http/url.h"

enum { KEY_BYTES_MAX = 1024 };

struct digest {
	unsigned char bytes[SHA256_DIGEST_LENGTH];
};

struct who_rules {
	const struct conf *conf;
	struct digest *keys; /* as in conf */
	bool everywhere;     /* listens on all addresses */
};

static struct digest digest_of(struct str text)
{
	struct digest digest;
	SHA256((const unsigned char *)text.data, text.length, digest.bytes);
	return digest;
}

struct who_rules *who_rules_new(const struct conf *conf)
{
	struct who_rules *rules = xcalloc(1, sizeof(*rules));

	rules->conf = conf;
	rules->keys = xcalloc(conf->key_count + 1, sizeof(*rules->keys));
	for (size_t i = 0; i < conf->key_count; i++)
		rules->keys[i] = digest_of(str_from(conf->keys[i].key));
	for (size_t i = 0; i < conf->listens; i++) {
		const char *host = conf->listen[i].host;
		if (host && (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0))
			rules->everywhere = true;
	}
	return rules;
}

void who_rules_free(struct who_rules *rules)
{
	if (!rules)
		return;
	free(rules->keys);
	free(rules);
}

static bool refuse(struct who *out, int status, const char *code, const char *text)
{
	out->status = status;
	out->code = code;
	out->text = text;
	return false;
}

bool who_refuse_page(struct who *out)
{
	return refuse(out, 403, "origin_not_allowed",
	              "pages of this Origin may not use this server; add it to 'cors' in "
	              "cotenant.yaml if they may");
}

bool who_refuse_use(struct who *out)
{
	return refuse(out, 403, "admin_needed",
	              "this needs role admin: use the control socket, or a key of that role");
}

/* ---- Host and Origin ---- */

/* Does the Host name the very address that the client reached? */
static bool is_address_reached(int fd, struct str host)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	char text[NI_MAXHOST];
	struct host sent;

	if (fd < 0 || !host_parse(host, &sent))
		return false;
	if (getsockname(fd, (struct sockaddr *)&address, &bytes) < 0 ||
	    getnameinfo((struct sockaddr *)&address, bytes, text, sizeof(text), NULL, 0,
	                NI_NUMERICHOST) != 0)
		return false;
	struct str reached = str_from(text);
	if (str_starts(reached, "::ffff:")) { /* IPv4 on a socket for both */
		reached.data += 7;
		reached.length -= 7;
	}
	return str_equal_nocase(sent.name, reached);
}

static bool is_our_host(const struct who_rules *rules, const struct who_ask *ask)
{
	static const char *const always[] = { "localhost", "127.0.0.1", "[::1]" };
	const struct conf *conf = rules->conf;

	if (ask->host.length == 0)
		return false;
	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (host_matches(ask->host, str_from(always[i])))
			return true;
	for (size_t i = 0; i < conf->hosts.count; i++)
		if (host_matches(ask->host, str_from(conf->hosts.items[i])))
			return true;
	for (size_t i = 0; i < conf->listens; i++) {
		struct host sent;
		if (conf->listen[i].host && host_parse(ask->host, &sent) &&
		    str_equal_nocase(sent.name, str_from(conf->listen[i].host)))
			return true;
	}
	return rules->everywhere && is_address_reached(ask->fd, ask->host);
}

/* Sets allow_origin where the page is not ours but allowed. */
static bool is_allowed_origin(const struct who_rules *rules, const struct who_ask *ask,
                              struct who *out)
{
	const struct conf_strings *cors = &rules->conf->cors;

	if (origin_is_same(ask->origin, ask->host, false) ||
	    origin_is_same(ask->origin, ask->host, true)) /* behind somebody else's TLS */
		return true;
	for (size_t i = 0; i < cors->count; i++) {
		if (!origin_matches(ask->origin, str_from(cors->items[i])))
			continue;
		out->allow_origin = ask->origin;
		return true;
	}
	return false;
}

static bool comes_from_a_right_place(const struct who_rules *rules, const struct who_ask *ask,
                                     struct who *out)
{
	if (ask->unix_socket)
		return true;
	if (!is_our_host(rules, ask))
		return refuse(out, 403, "host_not_allowed",
		              "the Host of this request is not one of ours; add it to 'hosts' in "
		              "cotenant.yaml if it is");
	if (!ask->origin.data || is_allowed_origin(rules, ask, out))
		return true;
	if (ask->deed != DEED_LOOK && ask->deed != DEED_HEALTH)
		return who_refuse_page(out);
	out->foreign_page = true; /* it cannot read the answer without our leave */
	return true;
}

/* ---- keys ---- */

/* All are compared, so that the time tells nothing. */
static const struct conf_key *find_key(const struct who_rules *rules, struct str given)
{
	const struct conf_key *found = NULL;

	if (given.length == 0 || given.length > KEY_BYTES_MAX)
		return NULL;
	struct digest digest = digest_of(given);
	for (size_t i = 0; i < rules->conf->key_count; i++)
		if (CRYPTO_memcmp(digest.bytes, rules->keys[i].bytes, sizeof(digest.bytes)) == 0)
			found = &rules->conf->keys[i];
	return found;
}

static bool is_scheme(struct str authorization, const char *scheme, struct str *rest)
{
	return str_equal_nocase(str_cut(authorization, ' ', rest), str_from(scheme));
}

static int base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* The bytes written, or 0 where it is not base64. `out` has room for 3/4 of the text. */
static size_t base64_decode(struct str text, char *out)
{
	size_t length = 0;
	uint32_t bits = 0;

	for (int padding = 0; padding < 2 && str_ends(text, "="); padding++)
		text.length--;
	for (size_t i = 0; i < text.length; i++) {
		int value = base64_value(text.data[i]);
		if (value < 0)
			return 0;
		bits = bits << 6 | (uint32_t)value;
		if (i % 4)
			out[length++] = (char)(bits >> (6 - 2 * (i % 4)));
	}
	return length;
}

/* "user:password" in base64; the password is the key. */
static const struct conf_key *find_basic(const struct who_rules *rules, struct str encoded)
{
	char text[KEY_BYTES_MAX];
	struct str password;

	encoded = str_trim(encoded);
	if (encoded.length > KEY_BYTES_MAX)
		return NULL;
	size_t length = base64_decode(encoded, text);
	str_cut((struct str){ text, length }, ':', &password);
	const struct conf_key *key = find_key(rules, password);
	OPENSSL_cleanse(text, sizeof(text));
	return key;
}

static const struct conf_key *key_of(const struct who_rules *rules, const struct who_ask *ask)
{
	const struct conf_key *key = NULL;
	struct str rest;

	if (is_scheme(ask->authorization, "Bearer", &rest))
		key = find_key(rules, str_trim(rest));
	else if (is_scheme(ask->authorization, "Basic", &rest))
		key = find_basic(rules, rest);
	return key ? key : find_key(rules, ask->api_key);
}

static bool is_unix_admin(const struct who_ask *ask)
{
	return ask->uid == getuid() || ask->uid == 0 || ask->in_admin_group;
}

static bool find_role(const struct who_rules *rules, const struct who_ask *ask, struct who *out)
{
	out->role = CONF_ROLE_USE;
	if (ask->unix_socket && is_unix_admin(ask)) {
		out->role = CONF_ROLE_ADMIN;
		return true;
	}
	out->key = key_of(rules, ask);
	if (out->key) {
		out->role = out->key->role;
		return true;
	}
	if (ask->unix_socket || ask->deed == DEED_HEALTH)
		return true;
	if (rules->conf->key_count == 0) {
		if (rules->conf->local_admin && ask->loopback)
			out->role = CONF_ROLE_ADMIN;
		return true;
	}
	bool gave_one = ask->authorization.length || ask->api_key.length;
	return refuse(out, 401, gave_one ? "invalid_api_key" : "missing_api_key",
	              gave_one ? "the API key is not one of this server's"
	                       : "an API key is needed: Authorization: Bearer KEY");
}

/* ---- both ---- */

static bool is_json(struct str content_type)
{
	struct str parameters;
	struct str type = str_trim(str_cut(content_type, ';', &parameters));

	return str_equal_nocase(type, STR("application/json"));
}

bool who_may(const struct who_rules *rules, const struct who_ask *ask, struct who *out)
{
	*out = (struct who){ 0 };
	if (!comes_from_a_right_place(rules, ask, out) || !find_role(rules, ask, out))
		return false;
	if (ask->deed == DEED_CHANGE && out->role != CONF_ROLE_ADMIN)
		return who_refuse_use(out);
	bool changes = ask->deed == DEED_CHANGE || ask->deed == DEED_COMMAND;
	if (changes && ask->has_body && !is_json(ask->content_type))
		return refuse(out, 415, "unsupported_media_type",
		              "the body must be sent as Content-Type: application/json");
	return true;
}

bool who_may_preflight(const struct who_rules *rules, const struct who_ask *ask, struct who *out)
{
	struct who_ask strict = *ask;

	strict.deed = DEED_WORK;
	*out = (struct who){ 0 };
	return comes_from_a_right_place(rules, &strict, out);
}

bool who_may_use(const struct conf *conf, const struct conf_key *key, uint32_t model)
{
	if (!key || key->models.count == 0)
		return true;
	for (size_t i = 0; i < key->models.count; i++) {
		int allowed = conf_resolve(conf, str_from(key->models.items[i]), NULL);
		if (allowed >= 0 && (uint32_t)allowed == model)
			return true;
	}
	return false;
}
