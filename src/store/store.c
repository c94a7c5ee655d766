#include "store/store.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "store/db.h"
#include "store/queue.h"

enum {
	COMMIT_MS = 250,       /* at most this often, unless somebody waits */
	URGENT_ITEMS = 1024,   /* or the queue fills */
	PRUNE_MS = 3600 * 1000,
	STACK_BYTES = 512 * 1024,
	ERRORS_MAX = 8,        /* kinds of failure that wait to be told */
};

#define KEEP_MS (INT64_C(30) * 86400 * 1000)
#define KEEP_ROWS INT64_C(1000000)

/*
 * `db`, what it points to and `told` are the thread's alone; the rest is under `lock`.
 */
struct store {
	struct db db;
	int told[ERRORS_MAX];   /* SQLite codes that were, so that each is told once */
	size_t told_count;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t work;    /* for the thread: items, or the end */
	pthread_cond_t answer;  /* from it: what was learned, or that it ended */
	struct queue queue;
	bool hurry;             /* somebody waits for what is queued */
	bool stopping;
	bool abandoned;         /* store_close() gave up waiting: call nobody any more */
	bool calling;           /* a query's `done` runs now */
	bool finished;
	struct store_counters counters;
	struct err errors[ERRORS_MAX];
	size_t error_count;
	struct buf learned;     /* the answer to ITEM_READ_LEARNED */
	int learned_count;
	bool learned_ready;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct timespec at_ms(int64_t ms)
{
	return (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
}

/* ---- the thread ---- */

static void say(struct store *store, const struct err *err)
{
	pthread_mutex_lock(&store->lock);
	if (store->error_count < ERRORS_MAX)
		store->errors[store->error_count++] = *err;
	pthread_mutex_unlock(&store->lock);
}

/* Once for each kind of failure. */
static void tell(struct store *store, int code, const struct err *err)
{
	bool again = false;

	for (size_t i = 0; i < store->told_count; i++)
		again |= store->told[i] == (code & 0xFF);
	if (again || store->told_count == ERRORS_MAX)
		return;
	store->told[store->told_count++] = code & 0xFF;
	say(store, err);
}

/* Each time: it names where the old file lies. */
static void tell_moved(struct store *store)
{
	if (!store->db.moved.code)
		return;
	say(store, &store->db.moved);
	store->db.moved = (struct err){ 0 };
}

static void count(struct store *store, uint64_t written, uint64_t failed)
{
	pthread_mutex_lock(&store->lock);
	store->counters.written += written;
	store->counters.failed += failed;
	pthread_mutex_unlock(&store->lock);
}

static bool is_damage(int code)
{
	return (code & 0xFF) == SQLITE_CORRUPT || (code & 0xFF) == SQLITE_NOTADB;
}

/* A failure costs the rows of its batch; a damaged file is replaced, so that the next are kept. */
static void on_failure(struct store *store, int code, const struct err *err)
{
	struct err worse = { 0 };

	db_rollback(&store->db);
	if (!is_damage(code))
		tell(store, code, err);
	else if (db_start_anew(&store->db, &worse) != SQLITE_OK)
		tell(store, code, &worse);
	tell_moved(store);
}

static int write_item(struct store *store, const struct item *item, struct err *err)
{
	if (item->kind == ITEM_ROW)
		return db_write(&store->db, item->table, item->data, err);
	if (item->kind == ITEM_FORGET_LEARNED)
		return db_forget_learned(&store->db, item->file_key, item->build_key, item->row_bytes, err);
	return db_write_learned(&store->db, item->file_key, item->build_key, item->data,
	                        item->row_bytes, err);
}

static bool is_written(const struct item *item)
{
	return item->kind == ITEM_ROW || item->kind == ITEM_LEARNED || item->kind == ITEM_FORGET_LEARNED;
}

/* The rows up to the next question, in one transaction. Frees them; returns what follows. */
static struct item *write_rows(struct store *store, struct item *item)
{
	struct err err = { 0 };
	uint64_t rows = 0;
	int code = db_begin(&store->db, &err);

	tell_moved(store);
	while (item && is_written(item)) {
		struct item *next = item->next;
		if (code == SQLITE_OK)
			code = write_item(store, item, &err);
		rows++;
		free(item);
		item = next;
	}
	if (code == SQLITE_OK)
		code = db_commit(&store->db, &err);
	if (code == SQLITE_OK) {
		count(store, rows, 0);
		return item;
	}
	count(store, 0, rows);
	on_failure(store, code, &err);
	return item;
}

static void answer_query(struct store *store, struct item *item)
{
	struct err err = { 0 };
	char *json;
	int code = db_query(&store->db, item->table, &item->query, &json, &err);

	tell_moved(store);
	if (code != SQLITE_OK)
		on_failure(store, code, &err);
	pthread_mutex_lock(&store->lock);
	bool calling = store->calling = !store->abandoned;
	pthread_mutex_unlock(&store->lock);
	if (calling)
		item->done(item->ctx, json);
	pthread_mutex_lock(&store->lock);
	store->calling = false;
	pthread_cond_signal(&store->answer);
	pthread_mutex_unlock(&store->lock);
	free(json);
}

static void answer_learned(struct store *store, uint32_t row_bytes)
{
	struct buf rows = BUF_INIT;
	struct err err = { 0 };
	int found, code = db_read_learned(&store->db, row_bytes, &rows, &found, &err);

	tell_moved(store);
	if (code != SQLITE_OK)
		on_failure(store, code, &err);
	pthread_mutex_lock(&store->lock);
	store->learned = rows;
	store->learned_count = found;
	store->learned_ready = true;
	pthread_cond_signal(&store->answer);
	pthread_mutex_unlock(&store->lock);
}

static void work_through(struct store *store, struct item *item)
{
	while (item) {
		if (is_written(item)) {
			item = write_rows(store, item);
			continue;
		}
		struct item *next = item->next;
		if (item->kind == ITEM_QUERY)
			answer_query(store, item);
		else
			answer_learned(store, item->row_bytes);
		free(item);
		item = next;
	}
}

/*
 * Under the lock: wait until there is something to do. What comes after a pause
 * is written at once; after that COMMIT_MS pass before the next commit, since
 * each costs as much as many rows.
 */
static struct item *wait_for_items(struct store *store, int64_t not_before_ms, int64_t prune_ms)
{
	while (!store->stopping) {
		int64_t now = now_ms(), until = prune_ms;
		if (store->queue.count) {
			bool urgent = store->hurry || store->queue.count >= URGENT_ITEMS;
			if (urgent || now >= not_before_ms)
				break;
			until = not_before_ms;
		}
		if (now >= until)
			break;
		struct timespec wake = at_ms(until);
		pthread_cond_timedwait(&store->work, &store->lock, &wake);
	}
	store->hurry = false;
	return queue_take_all(&store->queue);
}

static void prune(struct store *store)
{
	struct err err = { 0 };
	int code = db_prune(&store->db, KEEP_MS, KEEP_ROWS, &err);

	if (code != SQLITE_OK)
		on_failure(store, code, &err);
}

static void *run(void *ctx)
{
	struct store *store = ctx;
	int64_t not_before_ms = 0, prune_ms = now_ms() + PRUNE_MS / 60;

	for (bool stopping = false; !stopping;) {
		pthread_mutex_lock(&store->lock);
		struct item *items = wait_for_items(store, not_before_ms, prune_ms);
		stopping = store->stopping;
		pthread_mutex_unlock(&store->lock);
		if (items)
			not_before_ms = now_ms() + COMMIT_MS;
		work_through(store, items);
		if (!stopping && now_ms() >= prune_ms) {
			prune(store);
			prune_ms = now_ms() + PRUNE_MS;
		}
	}
	db_close(&store->db);
	pthread_mutex_lock(&store->lock);
	store->finished = true;
	pthread_cond_signal(&store->answer);
	pthread_mutex_unlock(&store->lock);
	return NULL;
}

/* ---- the callers ---- */

/* Signals are the loop's: the thread takes none. */
static int start_thread(struct store *store)
{
	pthread_attr_t attributes;
	sigset_t all, before;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int failed = pthread_create(&store->thread, &attributes, run, store);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return failed;
}

static void init_locks(struct store *store)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&store->lock, NULL);
	pthread_cond_init(&store->work, &monotonic);
	pthread_cond_init(&store->answer, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static void free_store(struct store *store)
{
	pthread_mutex_destroy(&store->lock);
	pthread_cond_destroy(&store->work);
	pthread_cond_destroy(&store->answer);
	buf_release(&store->learned);
	free(store);
}

struct store *store_open(const char *path, struct err *err)
{
	struct store *store = xcalloc(1, sizeof(*store));
	struct err failure = { 0 };

	init_locks(store);
	int code = db_open(&store->db, path, &failure);
	if (code == SQLITE_MISUSE) {
		err_set(err, failure.code, "%s", failure.text);
		db_close(&store->db);
		free_store(store);
		return NULL;
	}
	if (code != SQLITE_OK)
		tell(store, code, &failure);
	tell_moved(store);
	int failed = start_thread(store);
	if (failed) {
		err_set(err, -failed, "history '%s': no thread: %s", path, strerror(failed));
		db_close(&store->db);
		free_store(store);
		return NULL;
	}
	return store;
}

void store_close(struct store *store, int wait_ms)
{
	struct timespec until = at_ms(now_ms() + wait_ms);

	if (!store)
		return;
	pthread_mutex_lock(&store->lock);
	store->stopping = true;
	pthread_cond_signal(&store->work);
	for (int late = 0; !store->finished && !late;)
		late = pthread_cond_timedwait(&store->answer, &store->lock, &until);
	bool finished = store->finished;
	store->abandoned = !finished;
	while (store->calling) /* a callback is short, and its caller is not gone yet */
		pthread_cond_wait(&store->answer, &store->lock);
	pthread_mutex_unlock(&store->lock);

	if (!finished) {
		pthread_detach(store->thread);
		return;
	}
	pthread_join(store->thread, NULL);
	free_store(store);
}

static bool put(struct store *store, struct item *item, bool hurry)
{
	pthread_mutex_lock(&store->lock);
	bool taken = queue_put(&store->queue, item);
	store->counters.dropped += !taken && is_written(item);
	store->hurry |= taken && hurry;
	if (taken && (hurry || store->queue.count == 1 || store->queue.count == URGENT_ITEMS))
		pthread_cond_signal(&store->work);
	pthread_mutex_unlock(&store->lock);
	if (!taken)
		free(item);
	return taken;
}

bool store_add_decision(struct store *store, const struct store_decision *row)
{
	return store && put(store, item_of_row(TABLE_DECISIONS, row), false);
}

bool store_add_request(struct store *store, const struct store_request *row)
{
	return store && put(store, item_of_row(TABLE_REQUESTS, row), false);
}

bool store_add_observation(struct store *store, const struct store_observation *row)
{
	return store && put(store, item_of_row(TABLE_OBSERVATIONS, row), false);
}

bool store_save_learned(struct store *store, uint64_t file_key, uint64_t build_key,
                        const void *row, uint32_t row_bytes)
{
	return store && put(store, item_of_learned(file_key, build_key, row, row_bytes), false);
}

bool store_forget_learned(struct store *store, uint64_t file_key, uint64_t build_key, uint32_t row_bytes)
{
	if (!store)
		return false;
	struct item *item = item_of_learned(file_key, build_key, "", 0);
	item->kind = ITEM_FORGET_LEARNED;
	item->row_bytes = row_bytes;
	return put(store, item, false);
}

void store_hurry(struct store *store)
{
	pthread_mutex_lock(&store->lock);
	store->hurry = true;
	pthread_cond_signal(&store->work);
	pthread_mutex_unlock(&store->lock);
}

void store_counters(struct store *store, struct store_counters *out)
{
	*out = (struct store_counters){ 0 };
	if (!store)
		return;
	pthread_mutex_lock(&store->lock);
	*out = store->counters;
	pthread_mutex_unlock(&store->lock);
}

bool store_take_error(struct store *store, struct err *out)
{
	bool found = false;

	if (!store)
		return false;
	pthread_mutex_lock(&store->lock);
	if (store->error_count) {
		found = true;
		*out = store->errors[0];
		store->error_count--;
		memmove(store->errors, store->errors + 1, store->error_count * sizeof(*store->errors));
	}
	pthread_mutex_unlock(&store->lock);
	return found;
}

int store_load_learned(struct store *store, uint32_t row_bytes,
                       void (*each)(void *ctx, const void *row), void *ctx)
{
	if (!store)
		return 0;
	struct item *item = item_of_learned(0, 0, "", 0);
	item->kind = ITEM_READ_LEARNED;
	item->row_bytes = row_bytes;
	if (!put(store, item, true))
		return -EAGAIN;

	pthread_mutex_lock(&store->lock);
	while (!store->learned_ready)
		pthread_cond_wait(&store->answer, &store->lock);
	struct buf rows = store->learned;
	int found = store->learned_count;
	store->learned = BUF_INIT;
	store->learned_ready = false;
	pthread_mutex_unlock(&store->lock);
	for (int i = 0; i < found; i++)
		each(ctx, buf_str(&rows).data + (size_t)i * row_bytes);
	buf_release(&rows);
	return found;
}

bool store_query(struct store *store, const struct store_query *query,
                 void (*done)(void *ctx, const char *json), void *ctx)
{
	enum table_kind table = table_find(query->kind);

	if (!store || table == TABLE_COUNT || query->limit < 1 || query->limit > 1000)
		return false;
	return put(store, item_of_query(table, query, done, ctx), true);
}
