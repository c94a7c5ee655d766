#include "conf/node.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"

struct parse {
	yaml_parser_t parser;
	struct problems *problems;
	struct str text;
	struct node *root;
	struct node *open[NODE_DEPTH_MAX]; /* the maps and lists we are in */
	size_t depth;
	struct node *key;                  /* read, its value not yet */
	size_t nodes;
	size_t documents;
};

static struct place place_of(yaml_mark_t mark)
{
	return (struct place){ (uint32_t)mark.line + 1, (uint32_t)mark.column + 1 };
}

void node_free(struct node *node)
{
	while (node) {
		struct node *next = node->next;
		node_free(node->key);
		node_free(node->first); /* as deep as NODE_DEPTH_MAX, no deeper */
		free(node->text);
		free(node);
		node = next;
	}
}

struct node *node_child(const struct node *map, const char *key)
{
	if (!map || map->kind != NODE_MAP)
		return NULL;
	NODE_EACH(child, map)
		if (strcmp(child->key->text, key) == 0)
			return child;
	return NULL;
}

bool node_is_null(const struct node *node)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL" };

	if (node->kind != NODE_SCALAR || !node->plain)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(node->text, words[i]) == 0)
			return true;
	return false;
}

static bool refuse(struct parse *parse, struct place at, const char *what)
{
	problem_error(parse->problems, at, "%s", what);
	return false;
}

/* The reader knows only the byte where it stopped. */
static struct place place_of_byte(struct str text, size_t offset)
{
	struct place at = { 1, 1 };

	for (size_t i = 0; i < text.length && i < offset; i++) {
		bool newline = text.data[i] == '\n';
		at.line += newline;
		at.column = newline ? 1 : at.column + (((unsigned char)text.data[i] & 0xC0) != 0x80);
	}
	return at;
}

/* What was most likely meant, where libyaml's words name its rule and not the slip. */
static const char *syntax_hint(const yaml_parser_t *parser, struct str text)
{
	static const struct {
		const char *problem, *hint;
	} hints[] = {
		{ "cannot start any token", "quotes around the value" },
		{ "found unexpected end of stream", "close the quote that was opened there" },
		{ "expected ',' or '}'", "close the { that was opened there, or put a comma between its entries" },
		{ "expected ',' or ']'", "close the [ that was opened there, or put a comma between its items" },
		{ "mapping values are not allowed", "one key a line with its colon, and quotes around a value that holds ': '" },
		{ "did not find expected key", "indent it like the other keys of its map" },
	};
	size_t at = parser->problem_mark.index;

	if (at < text.length && text.data[at] == '\t')
		return "blanks instead of the tab";
	for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
		if (parser->problem && strstr(parser->problem, hints[i].problem))
			return hints[i].hint;
	return NULL;
}

static bool refuse_syntax(struct parse *parse)
{
	yaml_parser_t *parser = &parse->parser;

	if (parser->error == YAML_READER_ERROR) {
		struct place at = place_of_byte(parse->text, parser->problem_offset);
		problem_error(parse->problems, at, "not readable as text: %s; try: save it as UTF-8",
		              parser->problem);
		return false;
	}
	const char *hint = syntax_hint(parser, parse->text);
	char began[48] = "";
	if (parser->context && parser->context_mark.line != parser->problem_mark.line)
		snprintf(began, sizeof(began), " that began in line %zu", parser->context_mark.line + 1);
	problem_error(parse->problems, place_of(parser->problem_mark), "not valid YAML: %s%s%s%s%s%s",
	              parser->problem ? parser->problem : "it cannot be read",
	              parser->context ? " " : "", parser->context ? parser->context : "", began,
	              hint ? "; try: " : "", hint ? hint : "");
	return false;
}

/* Put a node where the document is: as the root, a list's item, a map's key or its value. */
static bool attach(struct parse *parse, struct node *node)
{
	if (parse->depth == 0) {
		parse->root = node;
		return true;
	}
	struct node *parent = parse->open[parse->depth - 1];
	if (parent->kind == NODE_MAP && !parse->key) {
		parse->key = node;
		return node->kind == NODE_SCALAR ||
		       refuse(parse, node->at, "a key must be a word, not a list or a map");
	}
	node->key = parse->key;
	parse->key = NULL;
	*(parent->last ? &parent->last->next : &parent->first) = node;
	parent->last = node;
	parent->count++;
	return true;
}

static bool add(struct parse *parse, enum node_kind kind, const yaml_event_t *event,
                struct node **out)
{
	struct place at = place_of(event->start_mark);

	if (++parse->nodes > NODE_COUNT_MAX)
		return refuse(parse, at, "too many values: more than 200000 in one file");
	if (kind != NODE_SCALAR && parse->depth == NODE_DEPTH_MAX)
		return refuse(parse, at, "nested too deep: more than 16 levels");
	*out = xcalloc(1, sizeof(**out));
	(*out)->kind = kind;
	(*out)->at = at;
	if (!attach(parse, *out))
		return false;
	if (kind != NODE_SCALAR)
		parse->open[parse->depth++] = *out;
	return true;
}

static bool add_scalar(struct parse *parse, const yaml_event_t *event)
{
	const char *value = (const char *)event->data.scalar.value;
	size_t length = event->data.scalar.length;
	struct place at = place_of(event->start_mark);
	struct node *node = NULL;

	if (length > NODE_SCALAR_MAX)
		return refuse(parse, at, "too long: more than 64 KiB in one value");
	if (length && memchr(value, 0, length))
		return refuse(parse, at, "a NUL character has no place here");
	bool added = add(parse, NODE_SCALAR, event, &node);
	if (node) {
		node->text = xstrndup(value, length);
		node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	}
	return added;
}

struct named {
	uint64_t hash;
	const struct node *key;
};

static int by_hash_and_place(const void *left, const void *right)
{
	const struct named *a = left, *b = right;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	if (a->key->at.line != b->key->at.line)
		return a->key->at.line < b->key->at.line ? -1 : 1;
	return a->key->at.column < b->key->at.column ? -1 : 1;
}

/* Sorted, not compared pair by pair: a file may hold a map of very many keys. */
static void check_keys_once(struct parse *parse, const struct node *map)
{
	struct named *keys = xcalloc(map->count + 1, sizeof(*keys));
	size_t count = 0;

	NODE_EACH(child, map)
		keys[count++] = (struct named){ str_hash(str_from(child->key->text)), child->key };
	qsort(keys, count, sizeof(*keys), by_hash_and_place);
	for (size_t i = 1; i < count; i++) {
		const struct node *first = keys[i - 1].key, *again = keys[i].key;
		char name[EXCERPT];
		if (keys[i].hash != keys[i - 1].hash || strcmp(first->text, again->text) != 0)
			continue;
		problem_error(parse->problems, again->at,
		              "'%s' is given twice, first in line %u; try: keep one of them",
		              excerpt(name, str_from(again->text)), first->at.line);
	}
	free(keys);
}

static bool take(struct parse *parse, const yaml_event_t *event)
{
	static const char no_marks[] =
		"anchors (&), aliases (*) and tags (!) are not used here; try: quote the value, or "
		"write it out";
	struct place at = place_of(event->start_mark);
	struct node *node = NULL;

	switch (event->type) {
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return true;
	case YAML_DOCUMENT_START_EVENT:
		return ++parse->documents == 1 ||
		       refuse(parse, at, "a second document; try: one file for each");
	case YAML_ALIAS_EVENT:
		return refuse(parse, at, no_marks);
	case YAML_SCALAR_EVENT:
		if (event->data.scalar.anchor || event->data.scalar.tag)
			return refuse(parse, at, no_marks);
		return add_scalar(parse, event);
	case YAML_SEQUENCE_START_EVENT:
		if (event->data.sequence_start.anchor || event->data.sequence_start.tag)
			return refuse(parse, at, no_marks);
		return add(parse, NODE_LIST, event, &node);
	case YAML_MAPPING_START_EVENT:
		if (event->data.mapping_start.anchor || event->data.mapping_start.tag)
			return refuse(parse, at, no_marks);
		return add(parse, NODE_MAP, event, &node);
	case YAML_SEQUENCE_END_EVENT:
		parse->depth--;
		return true;
	case YAML_MAPPING_END_EVENT:
		check_keys_once(parse, parse->open[--parse->depth]);
		return true; /* a key given twice is said; the rest is still worth reading */
	}
	return true;
}

static bool read_events(struct parse *parse)
{
	for (bool more = true; more;) {
		yaml_event_t event;
		if (!yaml_parser_parse(&parse->parser, &event))
			return refuse_syntax(parse);
		more = event.type != YAML_STREAM_END_EVENT;
		bool taken = take(parse, &event);
		yaml_event_delete(&event);
		if (!taken)
			return false;
	}
	return true;
}

/* Keys given twice leave the tree whole but are errors, so the caller fails all the same. */
struct node *node_parse(struct str text, struct problems *problems)
{
	struct parse parse = { .problems = problems, .text = text };

	if (!yaml_parser_initialize(&parse.parser)) {
		refuse(&parse, (struct place){ 0 }, "out of memory");
		return NULL;
	}
	yaml_parser_set_encoding(&parse.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parse.parser, (const unsigned char *)text.data, text.length);
	bool whole = read_events(&parse);
	yaml_parser_delete(&parse.parser);
	if (!whole) {
		node_free(parse.key);
		node_free(parse.root);
		return NULL;
	}
	if (!parse.root) {
		parse.root = xcalloc(1, sizeof(*parse.root));
		parse.root->text = xstrdup("");
		parse.root->plain = true;
		parse.root->at = (struct place){ 1, 1 };
	}
	return parse.root;
}
