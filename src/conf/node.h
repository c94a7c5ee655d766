#ifndef CONF_NODE_H
#define CONF_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "conf/problems.h"

/*
 * node - a YAML document as a small tree that remembers where everything stood.
 *
 * Of YAML only what a configuration needs: one document of maps, lists and
 * scalars. Anchors, aliases and tags are refused (a few of them can stand for
 * gigabytes), as are keys that are not scalars and keys given twice. Depth,
 * nodes and the length of a scalar are bounded, so what a file can cost is, too.
 */
enum {
	NODE_DEPTH_MAX = 16,
	NODE_COUNT_MAX = 200000,
	NODE_SCALAR_MAX = 65536, /* bytes */
};

enum node_kind {
	NODE_SCALAR,
	NODE_LIST,
	NODE_MAP,
};

struct node {
	enum node_kind kind;
	bool plain;         /* a scalar without quotes: `null` and `~` mean nothing there */
	struct place at;
	char *text;         /* of a scalar; terminated, without NUL inside */
	struct node *key;   /* what it stands under, where the parent is a map */
	struct node *first; /* children, in the order of the file */
	struct node *last;
	struct node *next;
	size_t count;       /* of children */
};

/*
 * NULL with a problem where the text is not such a document. An empty document
 * is a null scalar.
 */
struct node *node_parse(struct str text, struct problems *problems);
void node_free(struct node *node); /* NULL does nothing */

/* The value under `key`; NULL where it is no map, or not there. */
struct node *node_child(const struct node *map, const char *key);
/* Nothing, in YAML's words: empty, ~ or null, without quotes. */
bool node_is_null(const struct node *node);

#define NODE_EACH(child, parent) \
	for (struct node *child = (parent)->first; child; child = child->next)

#endif
