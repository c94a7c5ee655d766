#include "app/warmer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/err.h"
#include "probe/meminfo.h"
#include "probe/page_cache.h"

enum { PIECE = 16 << 20, READ = 1 << 20 };

/* linux/ioprio.h: class in the upper bits, of this thread alone. */
enum { IOPRIO_THREAD = 1, IOPRIO_NORMAL = 2 << 13 | 4, IOPRIO_IDLE = 3 << 13 };

struct told {
	uint32_t model;
	int64_t bytes;
};

struct warmer {
	struct warmer_events events;
	int64_t free_least_bytes;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	struct warm_orders *next;     /* not yet taken; NULL: nothing new */
	bool ends;
	struct told told[WARM_WATCH_MAX + 2 * WARM_ORDERS_MAX];
	uint32_t tolds;
	uv_async_t async;
	char *buffer;                 /* the thread's */
};

static void set_priority(int priority)
{
	/* Where it is refused, reading is only less polite. */
	(void)syscall(SYS_ioprio_set, IOPRIO_THREAD, 0, priority);
}

static bool is_interrupted(struct warmer *warmer)
{
	pthread_mutex_lock(&warmer->lock);
	bool interrupted = warmer->ends || warmer->next;
	pthread_mutex_unlock(&warmer->lock);
	return interrupted;
}

static bool memory_is_low(const struct warmer *warmer)
{
	struct meminfo info;
	struct err err;

	return warmer->free_least_bytes > 0 &&
	       (meminfo_read(NULL, "", &info, &err) < 0 || info.free < warmer->free_least_bytes);
}

/* Heard of with the next tell_loop(), so that the loop wakes once for many. */
static void note(struct warmer *warmer, uint32_t model, int64_t bytes)
{
	uint32_t i = 0;

	pthread_mutex_lock(&warmer->lock);
	while (i < warmer->tolds && warmer->told[i].model != model)
		i++;
	if (i < sizeof(warmer->told) / sizeof(warmer->told[0]) && bytes >= 0) {
		warmer->told[i] = (struct told){ model, bytes };
		warmer->tolds += i == warmer->tolds;
	}
	pthread_mutex_unlock(&warmer->lock);
}

static void tell_loop(struct warmer *warmer)
{
	uv_async_send(&warmer->async);
}

static int open_file(const struct warm_order *order)
{
	struct stat st;
	int fd = open(order->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static void measure(struct warmer *warmer, const struct warm_order *order)
{
	int fd = open_file(order);

	if (fd < 0)
		return;
	note(warmer, order->model, page_cache_bytes(fd, 0, INT64_MAX / 2));
	close(fd);
}

/* False at the file's end, or where it cannot be read. */
static bool read_piece(const struct warmer *warmer, int fd, int64_t at, int64_t length)
{
	posix_fadvise(fd, at + length, PIECE, POSIX_FADV_WILLNEED); /* the device goes on while this is copied */
	for (int64_t done = 0; done < length;) {
		size_t want = length - done < READ ? (size_t)(length - done) : READ;
		ssize_t got = pread(fd, warmer->buffer, want, at + done);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += got;
	}
	return true;
}

/* False: something new is to be done. */
static bool warm(struct warmer *warmer, const struct warm_order *order)
{
	int fd = open_file(order);
	bool goes_on = true;

	if (fd < 0)
		return true;
	for (int64_t at = 0; at < order->bytes && goes_on; at += PIECE) {
		int64_t length = order->bytes - at < PIECE ? order->bytes - at : PIECE;
		if (is_interrupted(warmer)) {
			close(fd);
			return false;
		}
		if (page_cache_bytes(fd, at, length) >= length)
			continue;
		goes_on = !memory_is_low(warmer) && read_piece(warmer, fd, at, length);
	}
	note(warmer, order->model, page_cache_bytes(fd, 0, INT64_MAX / 2));
	tell_loop(warmer);
	close(fd);
	return true;
}

static void cool(struct warmer *warmer, const struct warm_order *order)
{
	int fd = open_file(order);

	if (fd < 0)
		return;
	posix_fadvise(fd, order->bytes, 0, POSIX_FADV_DONTNEED);
	note(warmer, order->model, page_cache_bytes(fd, 0, INT64_MAX / 2));
	close(fd);
}

static void work(struct warmer *warmer, const struct warm_orders *orders)
{
	for (uint32_t i = 0; i < orders->cools; i++)
		cool(warmer, &orders->cool[i]);
	if (orders->cools > 0)
		tell_loop(warmer);
	if (orders->ahead.bytes > 0) {
		set_priority(IOPRIO_NORMAL);
		bool done = warm(warmer, &orders->ahead);
		set_priority(IOPRIO_IDLE);
		if (!done)
			return;
	}
	for (uint32_t i = 0; i < orders->watches && !is_interrupted(warmer); i++)
		measure(warmer, &orders->watch[i]);
	if (orders->watches > 0)
		tell_loop(warmer);
	for (uint32_t i = 0; i < orders->warms; i++)
		if (!warm(warmer, &orders->warm[i]))
			return;
}

static void *run(void *arg)
{
	struct warmer *warmer = arg;

	set_priority(IOPRIO_IDLE);
	setpriority(PRIO_PROCESS, 0, 19); /* of this thread alone, on Linux */
	for (;;) {
		pthread_mutex_lock(&warmer->lock);
		while (!warmer->next && !warmer->ends)
			pthread_cond_wait(&warmer->news, &warmer->lock);
		struct warm_orders *orders = warmer->next;
		bool ends = warmer->ends;
		warmer->next = NULL;
		pthread_mutex_unlock(&warmer->lock);
		if (!ends)
			work(warmer, orders);
		free(orders);
		if (ends)
			return NULL;
	}
}

static void on_told(uv_async_t *async)
{
	struct warmer *warmer = async->data;
	struct told told[sizeof(warmer->told) / sizeof(warmer->told[0])];

	pthread_mutex_lock(&warmer->lock);
	uint32_t count = warmer->tolds;
	memcpy(told, warmer->told, count * sizeof(told[0]));
	warmer->tolds = 0;
	pthread_mutex_unlock(&warmer->lock);
	for (uint32_t i = 0; i < count; i++)
		warmer->events.on_cached(warmer->events.ctx, told[i].model, told[i].bytes);
}

struct warmer *warmer_new(struct uv_loop_s *loop, int64_t free_least_bytes, const struct warmer_events *events)
{
	struct warmer *warmer = xcalloc(1, sizeof(*warmer));

	warmer->events = *events;
	warmer->free_least_bytes = free_least_bytes;
	warmer->buffer = xmalloc(READ);
	pthread_mutex_init(&warmer->lock, NULL);
	pthread_cond_init(&warmer->news, NULL);
	uv_async_init(loop, &warmer->async, on_told);
	warmer->async.data = warmer;
	uv_unref((uv_handle_t *)&warmer->async);
	if (pthread_create(&warmer->thread, NULL, run, warmer) == 0)
		return warmer;
	warmer->ends = true;
	warmer_free(warmer);
	return NULL;
}

void warmer_orders(struct warmer *warmer, const struct warm_orders *orders)
{
	struct warm_orders *copy = xmalloc(sizeof(*copy));

	/* What is in use of it, which is little of much. */
	copy->ahead = orders->ahead;
	copy->warms = orders->warms;
	copy->cools = orders->cools;
	copy->watches = orders->watches;
	memcpy(copy->warm, orders->warm, orders->warms * sizeof(orders->warm[0]));
	memcpy(copy->cool, orders->cool, orders->cools * sizeof(orders->cool[0]));
	memcpy(copy->watch, orders->watch, orders->watches * sizeof(orders->watch[0]));
	pthread_mutex_lock(&warmer->lock);
	free(warmer->next);
	warmer->next = copy;
	pthread_cond_signal(&warmer->news);
	pthread_mutex_unlock(&warmer->lock);
}

static void on_closed(uv_handle_t *handle)
{
	struct warmer *warmer = handle->data;

	pthread_cond_destroy(&warmer->news);
	pthread_mutex_destroy(&warmer->lock);
	free(warmer->next);
	free(warmer->buffer);
	free(warmer);
}

void warmer_free(struct warmer *warmer)
{
	if (!warmer)
		return;
	if (!warmer->ends) {
		pthread_mutex_lock(&warmer->lock);
		warmer->ends = true;
		pthread_cond_signal(&warmer->news);
		pthread_mutex_unlock(&warmer->lock);
		pthread_join(warmer->thread, NULL);
	}
	uv_close((uv_handle_t *)&warmer->async, on_closed);
}
