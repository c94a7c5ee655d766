#ifndef HTTP_URL_H
#define HTTP_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * url - targets, hosts and origins taken apart, strictly.
 *
 * A path is never repaired: what would have to be normalised is refused, so
 * that what we decide about a path holds for what the engine makes of it.
 */

/* Percent-decode with a terminator behind. False: a bad escape, a NUL, or it does not fit. */
bool url_decode(struct str text, char *out, size_t out_bytes);

/* Percent-encode all but unreserved characters; false where it does not fit. */
bool url_encode(struct str text, char *out, size_t out_bytes);

/*
 * One parameter of a query, decoded ('+' is a blank); the first of that name
 * counts. False: it is absent, bad, or does not fit.
 */
bool url_parameter(struct str query, const char *name, char *out, size_t out_bytes);

/*
 * NULL where the path is as it must be, else what is wrong. Refused: no '/' in
 * front, "//", segments "." and ".." (also written with escapes), '\', bad
 * escapes, escapes of control bytes, of '\' and of '/'. The last is allowed in the
 * segment that names a model or request (/v1/models/, /api/v1/models/,
 * /api/v1/why/, /upstream/), for names with a slash.
 */
const char *url_path_fault(struct str path);

/* Segment `index` of a path that has no fault, still encoded; {NULL, 0} where there is none. */
struct str url_segment(struct str path, unsigned index);
/* What follows the first `count` segments, with its '/'; "" where nothing does. */
struct str url_after_segments(struct str path, unsigned count);

struct host {
	struct str name; /* without the brackets of an IPv6 address */
	int port;        /* -1: none said */
	bool is_ipv6;
};

/* "name", "name:port", "1.2.3.4:port", "[v6]:port". False where it is none of them. */
bool host_parse(struct str text, struct host *out);

/*
 * Does the Host a client sent name what `allowed` names? Names by ASCII case
 * ignored; a port in `allowed` must be there too, without one any will do.
 */
bool host_matches(struct str sent, struct str allowed);

struct origin {
	struct str scheme; /* "http", "https", or another */
	struct host host;
	int port; /* said, or the scheme's own; -1 where it has none */
};

/* False for "null" and whatever is no origin. */
bool origin_parse(struct str text, struct origin *out);
/* Is it the page we served: our scheme, and the Host of this request? */
bool origin_is_same(struct str origin, struct str sent_host, bool tls);
/* The same origin as `allowed` ("https://app.example"; "*" allows any but "null"). */
bool origin_matches(struct str origin, struct str allowed);

#endif
