#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "conf/check.h"

enum { KEYS_MAX = 1024, SETS_MAX = 64, SET_MAX = 8, SIDES_MAX = 64 };

/* A word by which a client may ask for a model, and where it was given. */
struct name {
	uint64_t hash;
	const char *text;
	struct place at;
	const char *kind; /* "an alias" */
};

struct names {
	struct name *items;
	size_t count;
};

static void add(struct names *names, const char *text, struct place at, const char *kind)
{
	names->items[names->count++] =
		(struct name){ str_hash(str_from(text)), text, at, kind };
}

static size_t count_all(const struct conf *conf)
{
	size_t count = conf->model_count + conf->alias_count;

	for (size_t i = 0; i < conf->model_count; i++)
		count += conf->models[i].aliases.count;
	return count;
}

static struct names collect(const struct conf *conf, const struct node *root)
{
	struct names names = { xcalloc(count_all(conf) + 1, sizeof(struct name)), 0 };
	const struct node *models = node_child(root, "models");
	const struct node *aliases = node_child(root, "aliases");
	const struct node *node = models ? models->first : NULL;

	for (size_t i = 0; i < conf->model_count; i++, node = node->next) {
		const struct conf_model *model = &conf->models[i];
		const struct node *list = node_child(node, "aliases");
		const struct node *item = list && list->kind == NODE_LIST ? list->first : list;
		add(&names, model->name, node->key->at, "the name of a model");
		for (size_t j = 0; j < model->aliases.count; j++, item = item->next)
			add(&names, model->aliases.items[j], item->at, "an alias");
	}
	node = aliases ? aliases->first : NULL;
	for (size_t i = 0; i < conf->alias_count; i++, node = node->next)
		add(&names, conf->aliases[i].name, node->key->at, "an alias");
	return names;
}

static int by_text_and_place(const void *left, const void *right)
{
	const struct name *a = left, *b = right;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	int order = strcmp(a->text, b->text);
	if (order)
		return order;
	if (a->at.line != b->at.line)
		return a->at.line < b->at.line ? -1 : 1;
	return a->at.column < b->at.column ? -1 : a->at.column > b->at.column;
}

static void check_once(const struct conf *conf, const struct node *root, struct problems *problems)
{
	struct names names = collect(conf, root);

	qsort(names.items, names.count, sizeof(*names.items), by_text_and_place);
	for (size_t i = 1; i < names.count; i++) {
		const struct name *first = &names.items[i - 1], *again = &names.items[i];
		char shown[EXCERPT];
		if (strcmp(first->text, again->text) != 0)
			continue;
		problem_error(problems, again->at,
		              "'%s' is %s already, in line %u; try: another name",
		              excerpt(shown, str_from(again->text)), first->kind, first->at.line);
	}
	free(names.items);
}

static bool is_model(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->model_count; i++)
		if (strcmp(conf->models[i].name, name) == 0)
			return true;
	return false;
}

static void refuse_unknown(const struct conf *conf, struct problems *problems, struct place at,
                           const char *where, const char *name)
{
	const char *nearest = NULL;
	char shown[EXCERPT];

	for (size_t i = 0; i < conf->alias_count; i++)
		if (strcmp(conf->aliases[i].name, name) == 0) {
			problem_error(problems, at, "%s: '%s' is an alias itself; try: the name of a model, such as %s", where,
			              excerpt(shown, str_from(name)), conf->model_count ? conf->models[0].name : "chat");
			return;
		}
	/* Past what is told, a nearest name is only time. */
	for (size_t i = 0; i < conf->model_count && problems->count < PROBLEMS_MAX; i++)
		nearest = str_nearer(str_from(name), nearest, conf->models[i].name);
	excerpt(shown, str_from(name));
	if (nearest || conf->model_count == 0)
		problem_error(problems, at, "%s: no model '%s'; try: %s", where, shown,
		              nearest ? nearest : "a name under models");
	else
		problem_error(problems, at, "%s: no model '%s'; try: a name under models, such as %s", where, shown,
		              conf->models[0].name);
}

/* Where the i-th text of a list stands, which may be a single text. */
static struct place item_place(const struct node *parent, const char *key, size_t index)
{
	const struct node *list = node_child(parent, key);
	const struct node *item = list && list->kind == NODE_LIST ? list->first : list;

	while (item && index--)
		item = item->next;
	return item ? item->at : check_place(parent, key);
}

static void check_models(const struct conf *conf, const struct conf_strings *models, const char *where,
                         const struct node *node, const char *key, struct problems *problems)
{
	for (size_t i = 0; i < models->count; i++)
		if (!is_model(conf, models->items[i]))
			refuse_unknown(conf, problems, item_place(node, key, i), where, models->items[i]);
}

static void check_alias(const struct conf *conf, const struct conf_alias *alias,
                        const struct node *node, struct problems *problems)
{
	char where[300];

	snprintf(where, sizeof(where), "aliases.%s", alias->name);
	if (alias->model && alias->models.count)
		problem_error(problems, check_place(node, "model"),
		              "%s: both model and models; try: models alone", where);
	else if (!alias->model && alias->models.count == 0)
		problem_error(problems, check_place(node, ""),
		              "%s: it stands for no model; try: model: NAME", where);
	if (alias->model && !is_model(conf, alias->model))
		refuse_unknown(conf, problems, check_place(node, "model"), where, alias->model);
	check_models(conf, &alias->models, where, node, "models", problems);
}

/* Once checked, `model` is `models` of one. */
static void settle_alias(struct conf_alias *alias)
{
	if (!alias->model || alias->models.count)
		return;
	alias->models.items = xcalloc(1, sizeof(char *));
	alias->models.items[0] = alias->model;
	alias->models.count = 1;
	alias->model = NULL;
}

static void check_key(const struct conf *conf, size_t index, const struct node *node,
                      struct problems *problems)
{
	const struct conf_key *key = &conf->keys[index];
	char where[64];

	snprintf(where, sizeof(where), "api_keys[%zu]", index);
	for (size_t i = 0; i < index; i++) {
		if (strcmp(conf->keys[i].key, key->key) == 0)
			problem_error(problems, check_place(node, "key"),
			              "%s.key: the same secret as in api_keys[%zu]; try: another one",
			              where, i);
		if (strcmp(conf->keys[i].name, key->name) == 0)
			problem_error(problems, check_place(node, "name"),
			              "%s.name: the same name as in api_keys[%zu]; try: another one",
			              where, i);
	}
	for (size_t i = 0; i < key->models.count; i++)
		if (conf_resolve(conf, str_from(key->models.items[i]), NULL) < 0)
			refuse_unknown(conf, problems, item_place(node, "models", i), where,
			               key->models.items[i]);
}

/* The set before this one, or the place in this one, that has the model already; NULL: none. */
static const char *set_of(const struct conf *conf, size_t set, size_t place)
{
	const char *model = conf->sets[set].models.items[place];

	for (size_t i = 0; i <= set; i++)
		for (size_t j = 0; j < conf->sets[i].models.count && (i < set || j < place); j++)
			if (strcmp(conf->sets[i].models.items[j], model) == 0)
				return conf->sets[i].name;
	return NULL;
}

static void check_set(const struct conf *conf, size_t index, const struct node *node,
                      struct problems *problems)
{
	const struct conf_set *set = &conf->sets[index];
	char where[300], shown[EXCERPT];

	snprintf(where, sizeof(where), "sets.%s", set->name);
	if (set->models.count < 2 || set->models.count > SET_MAX)
		problem_error(problems, check_place(node, "models"),
		              "%s: %zu models; try: two to %d", where, set->models.count, SET_MAX);
	check_models(conf, &set->models, where, node, "models", problems);
	for (size_t i = 0; i < set->models.count && i < SET_MAX; i++) {
		const char *other = set_of(conf, index, i);
		if (other)
			problem_error(problems, item_place(node, "models", i),
			              "%s: '%s' is in the set %s already; try: one set a model", where,
			              excerpt(shown, str_from(set->models.items[i])), other);
	}
}

static void check_side(const struct conf *conf, const struct conf_side *side, const struct node *node,
                       struct problems *problems)
{
	char where[300];

	snprintf(where, sizeof(where), "side_traffic '%s'", side->name);
	if (side->says.count == 0 && side->max_tokens == 0)
		problem_error(problems, check_place(node, ""),
		              "%s: every short request is meant; try: says: [\"...\"], or max_tokens", where);
	check_models(conf, &side->alias, where, node, "alias", problems);
}

static void check_sets(const struct conf *conf, const struct node *root, struct problems *problems)
{
	const struct node *sets = node_child(root, "sets");
	const struct node *node = sets ? sets->first : NULL;

	if (conf->set_count > SETS_MAX)
		problem_error(problems, check_place(root, "sets"), "sets: more than %d; try: fewer", SETS_MAX);
	for (size_t i = 0; i < conf->set_count && i < SETS_MAX; i++, node = node->next)
		check_set(conf, i, node, problems);
}

static void check_sides(const struct conf *conf, const struct node *root, struct problems *problems)
{
	const struct node *sides = node_child(root, "side_traffic");
	const struct node *node = sides && sides->count ? sides->first : NULL;

	if (conf->side_count > SIDES_MAX)
		problem_error(problems, check_place(root, "side_traffic"),
		              "side_traffic: more than %d rules; try: fewer", SIDES_MAX);
	for (size_t i = 0; node && i < conf->side_count && i < SIDES_MAX; i++, node = node->next)
		check_side(conf, &conf->sides[i], node, problems);
}

void check_names(struct conf *conf, const struct node *root, struct problems *problems)
{
	const struct node *aliases = node_child(root, "aliases");
	const struct node *keys = node_child(root, "api_keys");
	const struct node *node = aliases ? aliases->first : NULL;

	check_once(conf, root, problems);
	for (size_t i = 0; i < conf->alias_count; i++, node = node->next) {
		check_alias(conf, &conf->aliases[i], node, problems);
		settle_alias(&conf->aliases[i]);
	}
	node = keys ? keys->first : NULL;
	if (conf->key_count > KEYS_MAX) /* each is compared with each, and with every request's */
		problem_error(problems, keys->key->at, "api_keys: more than %d; try: fewer", KEYS_MAX);
	for (size_t i = 0; i < conf->key_count && i < KEYS_MAX; i++, node = node->next)
		check_key(conf, i, node, problems);
	check_sets(conf, root, problems);
	check_sides(conf, root, problems);
}
