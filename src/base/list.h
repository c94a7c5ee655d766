#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * list - an intrusive ring with a head.
 *
 * The node lives inside the thing it links, so nothing is allocated and a thing
 * can leave its list in O(1). An unlinked node points at itself; list_remove()
 * of an unlinked node does nothing.
 */
struct list {
	struct list *next;
	struct list *prev;
};

static inline void list_init(struct list *list)
{
	list->next = list->prev = list;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* The thing that holds `node` as its `member`. */
#define LIST_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* Walk all nodes; the body may remove `node`, nothing else. */
#define LIST_EACH(node, head)                                                                    \
	for (struct list *node = (head)->next, *node##_next = node->next; node != (head);        \
	     node = node##_next, node##_next = node->next)

#endif
