#ifndef CONF_SCHEMA_H
#define CONF_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "conf/conf.h"

/*
 * schema - every key of cotenant.yaml, once.
 *
 * A section is the keys that may stand together in one map; a field is one of
 * them: its type, where its value lives in the struct, what it is when left
 * out, what a reload does with it, and one sentence for people. Reading,
 * printing, comparing, freeing, the documentation and "did you mean" all walk
 * these rows, so a key cannot be known to one of them and not to the others.
 */
enum field_type {
	FIELD_BOOL,
	FIELD_INT,      /* min..max */
	FIELD_SIZE,     /* bytes */
	FIELD_DURATION, /* microseconds */
	FIELD_PERCENT,  /* permille */
	FIELD_DECIMAL,  /* thousandths */
	FIELD_CHOICE,   /* value of `choices` */
	FIELD_WORD,     /* the text of one of `choices` */
	FIELD_STRING,
	FIELD_PATH,     /* ~ expanded; relative to the file's folder */
	FIELD_PROGRAM,  /* the same, but a name without / is looked up in PATH */
	FIELD_STRINGS,  /* struct conf_strings: a list, or one string */
	FIELD_PATHS,
	FIELD_ARGS,     /* a list, or a string split as a shell would */
	FIELD_PAIRS,    /* struct conf_pairs: name -> string */
	FIELD_CONTEXT,  /* the context_* of a struct conf_model */
	FIELD_JSON,     /* any map, kept as JSON text */
	FIELD_LISTEN,   /* struct conf_listen[] */
	FIELD_GROUP,    /* a map of further keys; their offsets count from `offset` */
	FIELD_LIST,     /* a list of maps -> array of structs */
	FIELD_TABLE,    /* a map of maps -> array of structs that know their name */
	FIELD_OPAQUE,   /* not built: its content is not looked at */
};

/* How a value is kept, which is all that copying, comparing and freeing ask. */
enum field_shape {
	SHAPE_NUMBER,
	SHAPE_TEXT,  /* char * */
	SHAPE_TEXTS, /* struct conf_strings */
	SHAPE_PAIRS,
	SHAPE_CONTEXT,
	SHAPE_LISTENS,
	SHAPE_SECTION,
	SHAPE_SECTIONS,
	SHAPE_NONE,
};

enum field_flag {
	FIELD_AUTO = 1,     /* `auto` is allowed: CONF_AUTO, of a duration CONF_BY_POWER */
	FIELD_NEVER = 2,    /* `never` is allowed: CONF_NEVER */
	FIELD_UNBUILT = 4,  /* refused where it differs from the default */
	FIELD_INHERITED = 8, /* a model's key that `defaults` may give */
	FIELD_SECRET = 16,  /* never printed */
	FIELD_HIDDEN = 32,  /* used up while reading: not printed */
	FIELD_NOTED = 64,   /* `also` is a bool: was it given? printed only then */
	FIELD_REQUIRED = 128,
	FIELD_ADDRESS = 256, /* may be written with a password before an "@": then no message repeats it */
};

enum field_effect {
	EFFECT_LIVE,    /* takes effect at once */
	EFFECT_DRAIN,   /* a loaded model starts anew */
	EFFECT_RESTART, /* the daemon must be restarted */
};

struct choice {
	const char *name;
	int64_t value;
	const char *unbuilt; /* what to write instead; NULL where it works */
	const char *note;    /* printed beside it; NULL where there is nothing to say */
};

struct section;

struct field {
	const char *key;
	enum field_type type;
	enum field_effect effect;
	uint32_t flags;
	uint32_t bytes;       /* of the member: numbers come as bool, uint32_t and int64_t */
	size_t offset;
	size_t also;          /* arrays: offset of their count; FIELD_NOTED: of the bool */
	int64_t min, max;
	const struct choice *choices;
	const struct section *section;
	/* What is wrong with a text, and what to write; NULL where nothing is. */
	const char *(*refuse)(struct str text);
	const char *fallback; /* as it would be written; NULL = nothing */
	const char *help;
};

struct section {
	const char *title;  /* "models.NAME", for messages and documentation */
	const struct field *fields; /* the last has no key */
	size_t bytes;       /* of the struct, where it is an array's */
	size_t name;        /* TABLE: offset of the name */
	uint32_t only;      /* rows without these flags are left out */
	const char *(*refuse_name)(struct str text); /* TABLE */
};

extern const struct section schema_root;
extern const struct section schema_model;
extern const struct choice schema_engine_kinds[];

/* The rows of a section: FIELDS_EACH (field, section). */
#define FIELDS_EACH(row, section)                                                                \
	for (const struct field *row = (section)->fields; row->key; row++)                       \
		if ((row->flags & (section)->only) == (section)->only)

/* The row of `key`; NULL where there is none. */
const struct field *schema_field(const struct section *section, struct str key);
/* The most alike key of the section; NULL where none is near. */
const char *schema_nearest(const struct section *section, struct str key);
/* Titles of the sections under `root` that have `key`, "a or b"; empty where none. */
struct buf;
void schema_places(const struct section *root, struct str key, struct buf *out);

/* A table of its keys and of those below, as Markdown; `reload`: with what a reload does. */
void section_docs(const struct section *section, bool reload, struct buf *out);

enum field_shape field_shape(const struct field *field);
/* A member: where it is, and its value as a number of any width, or as a pointer of any type. */
void *field_at(const struct field *field, const void *base);
int64_t field_get(const struct field *field, const void *base);
void field_set(const struct field *field, void *base, int64_t value);
void *field_pointer(const void *at);
bool field_noted(const struct field *field, const void *base);   /* FIELD_NOTED: was it given? */
size_t field_count(const struct field *field, const void *base); /* of an array's items */
char *field_item_name(const struct section *section, const void *item);

/* Equal by value; the items of a LIST or TABLE in their order. */
bool field_equal(const struct field *field, const void *a, const void *b);
bool section_equal(const struct section *section, const void *a, const void *b);
/* Free what it holds, not the struct itself. */
void field_free(const struct field *field, void *base);
void section_free(const struct section *section, void *base);

#endif
