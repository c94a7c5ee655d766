/*
 * What a picture costs grows with its size, from megabytes to more than any
 * machine has, and no engine asks before it takes it. So its size is part of
 * what the arbiter is asked for, and what can never be is refused for what it is.
 */
#include "base/units.h"
#include "engine/adapter.h"
#include "gateway/exchange.h"

enum { SIDE_MAX = 16384, SURE_PERCENT = 70 };

static bool refuse(struct exchange *exchange, struct failure *failure)
{
	failure->param = "size";
	exchange_refuse(exchange, failure);
	return false;
}

/* An estimate is the most that it may take: only well beyond the room it is sure. */
static bool never_fits(const struct picture_need *picture)
{
	return picture->room_bytes > 0 &&
	       picture->bytes / 100 * SURE_PERCENT > picture->room_bytes - picture->model_bytes;
}

bool exchange_weigh_picture(struct exchange *exchange, struct amount *need)
{
	const struct gateway_host *host = &exchange->gateway->host;
	const struct adapter *adapter = adapter_of(exchange_model(exchange));
	long long width = exchange->width, height = exchange->height;
	struct picture_need picture = { 0 };
	struct failure failure;
	char takes[UNITS_TEXT], room[UNITS_TEXT];

	if (!adapter || !adapter->makes_pictures || (width == 0 && height == 0))
		return true;
	if (width > SIDE_MAX || height > SIDE_MAX) {
		failure_set(&failure, 400, "picture_too_large",
		            "a picture of %lld x %lld is larger than any model makes; at most %d a side", width, height,
		            SIDE_MAX);
		return refuse(exchange, &failure);
	}
	if (!host->picture || width == 0 || height == 0)
		return true;
	host->picture(host->ctx, exchange->model, width * height, &picture);
	if (never_fits(&picture)) {
		failure_set(&failure, 400, "picture_too_large",
		            "a picture of %lld x %lld would take %s beside its model, and there are %s for models; "
		            "try a smaller size", width, height, units_size(takes, picture.bytes),
		            units_size(room, picture.room_bytes));
		return refuse(exchange, &failure);
	}
	need->bytes[0][USE_HOST] = picture.bytes;
	return true;
}
