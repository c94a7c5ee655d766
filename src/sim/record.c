#include "sim/record.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"

enum { BLOCK_MAX = 1 << 30 };

static const char magic[8] = "ctn-rec";

struct record_header {
	char magic[8];
	uint32_t format;
	uint32_t core_version;
	uint32_t event_bytes;  /* sizeof(struct event) */
	uint32_t action_bytes; /* sizeof(struct action) */
	uint32_t models;
	uint32_t requests;
	uint32_t instances;
	uint32_t leases;
};

static int put(FILE *out, const void *bytes, size_t length)
{
	errno = 0;
	if (fwrite(bytes, 1, length, out) == length)
		return 0;
	return errno ? -errno : -EIO;
}

int record_begin(FILE *out, const struct arbiter_limits *limits)
{
	struct record_header header = {
		.format = RECORD_FORMAT,
		.core_version = CORE_VERSION,
		.event_bytes = sizeof(struct event),
		.action_bytes = sizeof(struct action),
		.models = limits->models,
		.requests = limits->requests,
		.instances = limits->instances,
		.leases = limits->leases,
	};

	memcpy(header.magic, magic, sizeof(magic));
	return put(out, &header, sizeof(header));
}

int record_event(FILE *out, const struct event *event)
{
	uint32_t length = event_used_bytes(event->type);

	if (!length)
		return -EINVAL;
	int code = put(out, &length, sizeof(length));
	return code ? code : put(out, event, length);
}

int record_open(FILE *in, struct arbiter_limits *out_limits, struct err *err)
{
	struct record_header header;

	if (fread(&header, sizeof(header), 1, in) != 1 ||
	    memcmp(header.magic, magic, sizeof(magic)) != 0)
		return err_set(err, -EBADMSG, "this is not a recording of cotenant");
	if (header.format != RECORD_FORMAT || header.core_version != CORE_VERSION ||
	    header.event_bytes != sizeof(struct event) ||
	    header.action_bytes != sizeof(struct action))
		return err_set(err, -ENOTSUP,
		               "recording of format %u, core %u; this program plays format %d, core %d",
		               header.format, header.core_version, RECORD_FORMAT, CORE_VERSION);
	*out_limits = (struct arbiter_limits){
		.models = header.models,
		.requests = header.requests,
		.instances = header.instances,
		.leases = header.leases,
	};
	size_t bytes = arbiter_bytes(out_limits);
	if (bytes == 0 || bytes > BLOCK_MAX)
		return err_set(err, -EFBIG, "recording with limits beyond all reason");
	return 0;
}

int record_next(FILE *in, struct event *out, struct err *err)
{
	uint32_t length;
	size_t got = fread(&length, 1, sizeof(length), in);

	memset(out, 0, sizeof(*out));
	if (got == 0)
		return 0;
	if (got != sizeof(length))
		return err_set(err, -ENODATA, "recording cut short");
	if (length < sizeof(out->type) || length > sizeof(*out))
		return err_set(err, -EBADMSG, "recording with an event of %u bytes", length);
	if (fread(out, 1, length, in) != length)
		return err_set(err, -ENODATA, "recording cut short");
	if (event_used_bytes(out->type) != length)
		return err_set(err, -EBADMSG, "recording with an event of type %u of %u bytes",
		               out->type, length);
	return 1;
}

uint64_t action_hash(uint64_t hash, const struct action *action)
{
	const unsigned char *byte = (const unsigned char *)action;

	for (size_t i = 0; i < sizeof(*action); i++)
		hash = (hash ^ byte[i]) * UINT64_C(1099511628211);
	return hash;
}

struct replay {
	struct arbiter *arbiter;
	bool check;
	void (*on_event)(void *ctx, const struct event *event);
	void (*on_action)(void *ctx, const struct action *action);
	void *ctx;
	struct replay_result result;
};

static void play(struct replay *replay, const struct event *event)
{
	struct action items[64];
	enum step step;

	replay->result.events++;
	if (replay->on_event)
		replay->on_event(replay->ctx, event);
	do {
		struct actions out = { .items = items, .capacity = 64 };
		step = arbiter_step(replay->arbiter, event, &out);
		if (replay->check)
			arbiter_check(replay->arbiter);
		for (uint32_t i = 0; i < out.count; i++) {
			replay->result.actions++;
			replay->result.hash = action_hash(replay->result.hash, &items[i]);
			if (replay->on_action)
				replay->on_action(replay->ctx, &items[i]);
		}
		event = NULL;
	} while (step == STEP_MORE);
}

int replay_run(FILE *in, bool check, void (*on_event)(void *ctx, const struct event *event),
               void (*on_action)(void *ctx, const struct action *action), void *ctx,
               struct replay_result *out, struct err *err)
{
	struct arbiter_limits limits;
	struct event event;
	struct replay replay = {
		.check = check,
		.on_event = on_event,
		.on_action = on_action,
		.ctx = ctx,
		.result = { .hash = ACTION_HASH_START },
	};
	int code = record_open(in, &limits, err);

	if (code)
		return code;
	void *block = xcalloc(1, arbiter_bytes(&limits));
	replay.arbiter = arbiter_init(block, &limits);
	while ((code = record_next(in, &event, err)) == 1)
		play(&replay, &event);
	replay.result.cut_short = code == -ENODATA;
	replay.result.counters = *arbiter_counters(replay.arbiter);
	*out = replay.result;
	free(block);
	return code == -ENODATA ? 0 : code;
}
