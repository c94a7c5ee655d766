#ifndef CONF_BIND_H
#define CONF_BIND_H

#include "conf/node.h"
#include "conf/schema.h"

/*
 * bind - from the tree of a file to the values of a struct, by the schema.
 *
 * Nothing here knows a key. A value that is wrong is a problem with its place
 * and leaves the default; reading goes on, so that all problems of a file are
 * told at once.
 */
struct binder {
	struct conf *conf;
	const struct section *root; /* of the file */
	struct problems *problems;
	const char *folder;   /* of the file: relative paths begin there */
	char where[512];      /* "models.chat": what is being read, for messages */
};

/* `node` may be NULL or null: then everything is as it is by default. */
void bind_section(struct binder *binder, const struct section *section, void *base,
                  const struct node *node);

/*
 * One text, as it will be used: macros replaced, paths made absolute, refused
 * where the field's rule says so. NULL with a problem where it is wrong.
 */
char *bind_text(struct binder *binder, const struct field *field, struct place at, struct str raw);

/* `listen`: "host:port", "[v6]:port", "unix:/path". */
bool bind_listen(struct binder *binder, const struct field *field, struct place at,
                 struct str text, struct conf_listen *out);

/*
 * Replace ${env.NAME}, ${macro} and $${ in `raw`. `late` leaves ${PORT} and the
 * like in place. `shown` is the text fit for printing: macros replaced, the
 * environment not. False with a problem where a name is unknown.
 */
bool bind_expand(struct binder *binder, struct place at, struct str raw, bool late,
                 struct buf *value, struct buf *shown, bool *from_env);

/* A scalar as JSON: what is not quoted and reads as a number, true, false or null is one. */
void bind_json(const struct node *node, struct buf *out);

/* "models.chat.slots: ", as a message begins; valid until the next call. */
void bind_error(struct binder *binder, struct place at, const char *key, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* "models.chat.normalise: not built yet in this version; try: remove it"; `what` stands before it, NULL = nothing. */
void bind_unbuilt(struct binder *binder, struct place at, const char *what, const char *instead);

#endif
