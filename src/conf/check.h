#ifndef CONF_CHECK_H
#define CONF_CHECK_H

#include "conf/node.h"
#include "conf/schema.h"

/*
 * check - what no single key can show: that names are used once, that what is
 * named exists, that sums are possible; and what follows from several keys
 * (a model's kind of engine) is filled in. `root` gives the places.
 */
void check_all(struct conf *conf, const struct node *root, struct problems *problems);

/* The parts; check_all calls them. */
void check_model(struct conf *conf, struct conf_model *model, const struct node *node,
                 struct problems *problems);
void check_names(struct conf *conf, const struct node *root, struct problems *problems);

/* The place of node.key's value, else of the node, else of what it stands under. */
struct place check_place(const struct node *node, const char *key);

#endif
