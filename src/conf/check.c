#include "conf/check.h"

#include <string.h>

#include "base/units.h"

struct place check_place(const struct node *node, const char *key)
{
	const struct node *child = node_child(node, key);

	if (child)
		return child->at;
	if (!node)
		return (struct place){ 1, 1 };
	return node->key ? node->key->at : node->at;
}

static bool listens_equal(const struct conf_listen *a, const struct conf_listen *b)
{
	if (a->path || b->path)
		return a->path && b->path && strcmp(a->path, b->path) == 0;
	return a->port == b->port && a->port != 0 && strcmp(a->host, b->host) == 0;
}

static void check_listen(const struct conf *conf, const struct node *root,
                         struct problems *problems)
{
	const struct node *node = node_child(root, "listen");
	const struct node *item = node && node->kind == NODE_LIST ? node->first : node;

	for (size_t i = 0; i < conf->listens; i++) {
		const struct conf_listen *listen = &conf->listen[i];
		struct place at = item ? item->at : check_place(root, "listen");
		if (!listen->loopback && conf->key_count == 0)
			problem_error(problems, at,
			              "listen: %s can be reached from other machines, and there are no "
			              "api_keys; try: 127.0.0.1:%u, or add api_keys",
			              listen->host, listen->port);
		for (size_t j = 0; j < i; j++)
			if (listens_equal(listen, &conf->listen[j]))
				problem_error(problems, at,
				              "listen: the same address twice; try: keep one");
		item = item ? item->next : NULL;
	}
}

static void check_sums(const struct conf *conf, const struct node *root, struct problems *problems)
{
	struct place limit_at = check_place(node_child(root, "memory"), "limit");
	char sum[UNITS_TEXT], limit[UNITS_TEXT];
	int64_t limit_bytes = conf->memory_limit_bytes, pinned_bytes = 0;

	for (size_t i = 0; i < conf->model_count && limit_bytes != CONF_AUTO; i++) {
		const struct conf_model *model = &conf->models[i];
		if (model->pin && __builtin_add_overflow(pinned_bytes, model->footprint_bytes,
		                                         &pinned_bytes))
			pinned_bytes = INT64_MAX;
	}
	if (limit_bytes != CONF_AUTO && pinned_bytes > limit_bytes)
		problem_error(problems, limit_at,
		              "memory.limit: %s is less than the %s that pinned models take by their "
		              "footprint; try: a higher limit, or fewer pins",
		              units_size(limit, limit_bytes), units_size(sum, pinned_bytes));
	if (conf->body_each_bytes > conf->body_memory_bytes + conf->body_spill_bytes)
		problem_error(problems, check_place(node_child(root, "bodies"), "each"),
		              "bodies: one body of `each` fits neither `memory` nor `spill`; try: "
		              "spill of at least %s",
		              units_size(sum, conf->body_each_bytes));
}

static void check_catalogue(struct conf *conf, const struct node *root, struct problems *problems)
{
	const struct node *models = node_child(root, "models");
	const struct node *node = models ? models->first : NULL;

	if (conf->model_count == 0)
		problem_warn(problems, check_place(root, "models"),
		             "models: there are none, so every request is refused; try: models: "
		             "{chat: {file: ~/models/NAME.gguf}}");
	if ((int64_t)conf->model_count > conf->limit_models)
		problem_error(problems, check_place(root, "models"),
		              "models: %zu models are more than limits.models allows; try: limits: "
		              "{models: %zu}",
		              conf->model_count, conf->model_count);
	for (size_t i = 0; i < conf->model_count; i++, node = node->next)
		check_model(conf, &conf->models[i], node, problems);
}

static void check_engines(const struct conf *conf, const struct node *root,
                          struct problems *problems)
{
	const struct node *engines = node_child(root, "engines");

	for (size_t i = 0; i < conf->engine_count; i++) {
		const struct conf_named_engine *engine = &conf->engines[i];
		struct place at = check_place(node_child(engines, engine->name), "kind");
		for (const struct choice *kind = schema_engine_kinds; kind->name; kind++)
			if (strcmp(kind->name, engine->name) == 0 &&
			    kind->value != (int64_t)engine->kind)
				problem_error(problems, at,
				              "engines.%s: '%s' is a kind of its own; try: another name",
				              engine->name, engine->name);
		if (engine->kind == CONF_ENGINE_COMMAND)
			problem_error(problems, at,
			              "engines.%s.kind: a command is given by each model's cmd; try: "
			              "remove it",
			              engine->name);
	}
}

void check_all(struct conf *conf, const struct node *root, struct problems *problems)
{
	check_listen(conf, root, problems);
	check_engines(conf, root, problems);
	check_catalogue(conf, root, problems);
	check_names(conf, root, problems);
	check_sums(conf, root, problems);
}
