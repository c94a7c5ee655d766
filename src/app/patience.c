#include "app/patience.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app/cli.h"
#include "probe/reading.h"

enum { PATIENCE_S = 10 };

static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;
	bool over; /* under the lock */
	bool begun;
	const char *who;
	struct reading reading;
} state = { .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER };

/* True: it was over within the time. */
static bool wait_over(void)
{
	struct timespec until;
	int code = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	pthread_mutex_lock(&state.lock);
	while (!state.over && code == 0)
		code = pthread_cond_timedwait(&state.news, &state.lock, &until);
	bool over = state.over;
	pthread_mutex_unlock(&state.lock);
	return over;
}

static void *watch(void *arg)
{
	char what[READING_NAME_BYTES];
	uint64_t before, now = reading_count(&state.reading);

	(void)arg;
	do {
		before = now;
		if (wait_over())
			return NULL;
		now = reading_count(&state.reading);
	} while (now != before);
	reading_tell(&state.reading, what, sizeof(what));
	fprintf(stderr, "%s: %s gives no answer; the machine cannot be read\n", state.who, what);
	_exit(CLI_FAILED);
}

void patience_begin(const char *who)
{
	state.over = false;
	state.who = who;
	reading_init(&state.reading);
	reading_begin(&state.reading);
	state.begun = pthread_create(&state.thread, NULL, watch, NULL) == 0;
}

void patience_end(void)
{
	reading_begin(NULL);
	if (!state.begun)
		return;
	pthread_mutex_lock(&state.lock);
	state.over = true;
	pthread_mutex_unlock(&state.lock);
	pthread_cond_signal(&state.news);
	pthread_join(state.thread, NULL);
	state.begun = false;
}
