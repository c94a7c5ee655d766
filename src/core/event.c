#include "core/event.h"

#include <stddef.h>

#define USED(payload) ((uint32_t)(offsetof(struct event, payload) + sizeof(((struct event *)0)->payload)))

uint32_t event_used_bytes(uint32_t type)
{
	switch (type) {
	case EVENT_MACHINE:
		return USED(machine);
	case EVENT_MODEL:
		return USED(model);
	case EVENT_LEARNED:
		return USED(learned);
	case EVENT_WALL:
		return USED(wall);
	case EVENT_MEASURED:
		return USED(measured);
	case EVENT_SAMPLE:
		return USED(sample);
	case EVENT_PRESSURE:
		return USED(pressure);
	case EVENT_REQUEST_ARRIVED:
		return USED(arrived);
	case EVENT_REQUEST_GONE:
	case EVENT_REQUEST_FINISHED:
		return USED(request);
	case EVENT_INSTANCE_SPAWNED:
	case EVENT_INSTANCE_PROGRESS:
	case EVENT_INSTANCE_READY:
	case EVENT_INSTANCE_UNHEALTHY:
	case EVENT_INSTANCE_EXITED:
		return USED(instance);
	case EVENT_TOKENS_HELD:
		return USED(held);
	case EVENT_CONVERSATION_ERASED:
		return USED(erased);
	case EVENT_FILE_RESIDENCY:
		return USED(residency);
	case EVENT_PIN:
		return USED(command);
	case EVENT_TICK:
	case EVENT_SUSPEND:
	case EVENT_RESUME:
	case EVENT_SHUTDOWN:
	case EVENT_BLIND:
		return (uint32_t)offsetof(struct event, bytes);
	default:
		return type < EVENT_TYPE_COUNT ? (uint32_t)sizeof(struct event) : 0;
	}
}
