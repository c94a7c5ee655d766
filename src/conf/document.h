#ifndef CONF_DOCUMENT_H
#define CONF_DOCUMENT_H

#include "conf/node.h"
#include "conf/schema.h"

/*
 * document - another YAML file than cotenant.yaml, read by the same rules.
 *
 * Whoever has tables of its own gets the same reader: every problem at once, each
 * with its place and what to write instead, ${env.NAME}, notes under x-...
 */
struct document {
	const struct section *root;
	const char *instead; /* after "try: ", where the file cannot be read at all */
	/* What no single value tells; only where all of them were good. */
	void (*check)(const void *values, const struct node *root, struct problems *problems);
};

/*
 * Bind the file into `out`, which is zeroed. False where something is wrong: the
 * lines are in `told`. section_free() of the root's tables in either case.
 */
bool document_load(const struct document *document, const char *path, void *out, struct buf *told);

#endif
