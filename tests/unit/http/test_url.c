#include "../cmocka_all.h"

#include <string.h>

#include "http/url.h"

static void escapes_are_decoded_strictly(void **state)
{
	char out[8];
	(void)state;

	assert_true(url_decode(STR("a%2Fb+%41"), out, sizeof(out)));
	assert_string_equal(out, "a/b+A");
	assert_false(url_decode(STR("%"), out, sizeof(out)));
	assert_false(url_decode(STR("%2"), out, sizeof(out)));
	assert_false(url_decode(STR("%2g"), out, sizeof(out)));
	assert_false(url_decode(STR("a%00"), out, sizeof(out)));
	assert_true(url_decode(STR("1234567"), out, sizeof(out)));
	assert_false(url_decode(STR("12345678"), out, sizeof(out)));
}

static void encoding_comes_back(void **state)
{
	char encoded[64], decoded[64];
	(void)state;

	assert_true(url_encode(STR("org/na me:\xc3\xa4~"), encoded, sizeof(encoded)));
	assert_string_equal(encoded, "org%2Fna%20me%3A%C3%A4~");
	assert_true(url_decode(str_from(encoded), decoded, sizeof(decoded)));
	assert_string_equal(decoded, "org/na me:\xc3\xa4~");
	assert_false(url_encode(STR("//////"), encoded, 18));
	assert_true(url_encode(STR("//////"), encoded, 19));
}

static void parameters_are_found_by_name(void **state)
{
	struct str query = STR("a=1&model=x%20y+z&model=second&%65mpty=&flag");
	char out[16];
	(void)state;

	assert_true(url_parameter(query, "model", out, sizeof(out)));
	assert_string_equal(out, "x y z");
	assert_true(url_parameter(query, "empty", out, sizeof(out)));
	assert_string_equal(out, "");
	assert_true(url_parameter(query, "flag", out, sizeof(out)));
	assert_string_equal(out, "");
	assert_false(url_parameter(query, "mode", out, sizeof(out)));
	assert_false(url_parameter(STR(""), "a", out, sizeof(out)));
	assert_false(url_parameter(query, "model", out, 5));
}

static void a_path_that_needs_repair_is_refused(void **state)
{
	static const char *const bad[] = { "",
		                           "a",
		                           "*",
		                           "//",
		                           "/a//b",
		                           "/..",
		                           "/a/../b",
		                           "/.",
		                           "/a/.",
		                           "/%2e%2E",
		                           "/.%2e/x",
		                           "/a\\b",
		                           "/a%5cb",
		                           "/a%2fb",
		                           "/%00",
		                           "/%0a",
		                           "/%",
		                           "/%zz",
		                           "/v1/models/a/b%2fc",
		                           "/upstream/../x",
		                           "/upstream/m/..%2f",
		                           "/a\x7f" };
	static const char *const good[] = { "/",
		                            "/a",
		                            "/a/",
		                            "/a/b.c/...",
		                            "/a%20b",
		                            "/v1/models/org%2fname",
		                            "/api/v1/models/org%2Fname/load",
		                            "/upstream/org%2Fname/x",
		                            "/..." };
	(void)state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (!url_path_fault(str_from(bad[i])))
			fail_msg("accepted: %s", bad[i]);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (url_path_fault(str_from(good[i])))
			fail_msg("refused: %s", good[i]);
}

static void paths_are_cut_into_segments(void **state)
{
	(void)state;

	assert_true(str_is(url_segment(STR("/a/b/"), 0), "a"));
	assert_true(str_is(url_segment(STR("/a/b/"), 1), "b"));
	assert_true(str_is(url_segment(STR("/a/b/"), 2), ""));
	assert_null(url_segment(STR("/a/b/"), 3).data);
	assert_null(url_segment(STR(""), 0).data);
	assert_true(str_is(url_after_segments(STR("/upstream/m/v1/x"), 2), "/v1/x"));
	assert_true(str_is(url_after_segments(STR("/upstream/m/"), 2), "/"));
	assert_true(str_is(url_after_segments(STR("/upstream/m"), 2), ""));
	assert_true(str_is(url_after_segments(STR("/upstream/m"), 5), ""));
}

static void hosts_are_names_and_ports(void **state)
{
	struct host host;
	(void)state;

	assert_true(host_parse(STR("a-b.example:8778"), &host));
	assert_true(str_is(host.name, "a-b.example"));
	assert_int_equal(host.port, 8778);
	assert_true(host_parse(STR("127.0.0.1"), &host));
	assert_int_equal(host.port, -1);
	assert_true(host_parse(STR("[::1]:80"), &host));
	assert_true(str_is(host.name, "::1"));
	assert_true(host.is_ipv6);
	assert_int_equal(host.port, 80);

	static const char *const bad[] = { "",       ":80", "a:",     "a:b", "a:65536", "a:123456",
		                           "a b",    "a/b", "a@b",    "::1", "[::1",    "[::1]x",
		                           "[::1]:", "[]",  "[g::1]", "a,b", "a:80:80" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (host_parse(str_from(bad[i]), &host))
			fail_msg("accepted: %s", bad[i]);
}

static void a_host_is_matched_by_what_was_allowed(void **state)
{
	(void)state;

	assert_true(host_matches(STR("LocalHost:8778"), STR("localhost")));
	assert_true(host_matches(STR("[::1]:8778"), STR("[::1]")));
	assert_true(host_matches(STR("box:8778"), STR("box:8778")));
	assert_false(host_matches(STR("box:1"), STR("box:8778")));
	assert_false(host_matches(STR("box"), STR("box:8778")));
	assert_false(host_matches(STR("evil-localhost"), STR("localhost")));
	assert_false(host_matches(STR("localhost.evil"), STR("localhost")));
	assert_false(host_matches(STR(""), STR("localhost")));
}

static void an_origin_is_ours_or_allowed_or_foreign(void **state)
{
	(void)state;

	assert_true(origin_is_same(STR("http://box:8778"), STR("BOX:8778"), false));
	assert_true(origin_is_same(STR("http://box"), STR("box:80"), false));
	assert_true(origin_is_same(STR("https://box"), STR("box"), true));
	assert_false(origin_is_same(STR("https://box"), STR("box"), false));
	assert_false(origin_is_same(STR("http://box:1"), STR("box:8778"), false));
	assert_false(origin_is_same(STR("null"), STR("box"), false));
	assert_false(origin_is_same(STR("http://box/"), STR("box"), false));

	assert_true(origin_matches(STR("https://app.example"), STR("https://app.example:443")));
	assert_true(origin_matches(STR("https://any.example"), STR("*")));
	assert_false(origin_matches(STR("null"), STR("*")));
	assert_false(origin_matches(STR("http://app.example"), STR("https://app.example")));
	assert_false(origin_matches(STR("https://app.example.evil"), STR("https://app.example")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes_are_decoded_strictly),
		cmocka_unit_test(encoding_comes_back),
		cmocka_unit_test(parameters_are_found_by_name),
		cmocka_unit_test(a_path_that_needs_repair_is_refused),
		cmocka_unit_test(paths_are_cut_into_segments),
		cmocka_unit_test(hosts_are_names_and_ports),
		cmocka_unit_test(a_host_is_matched_by_what_was_allowed),
		cmocka_unit_test(an_origin_is_ours_or_allowed_or_foreign),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
