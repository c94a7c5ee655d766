#include <stdlib.h>

#include "api/inside.h"
#include "api/outcome.h"
#include "base/units.h"

/*
 * What is worth keeping beyond this boot: decisions about memory and ended
 * requests. A dispatch and a place in a queue are told by their request's row.
 */
static const char *name_or_none(const struct api *api, uint32_t model)
{
	const char *name = model == MODEL_NONE ? NULL : api->names.model(api->names.ctx, model);

	return name ? name : "";
}

static int64_t epoch_now_ms(const struct api *api)
{
	struct api_now now;

	api->host.now(api->host.ctx, &now);
	return (now.now_us + now.wall_offset_us) / US_PER_MS;
}

void keep_decision(struct api *api, const struct decision *decision)
{
	char id[API_ID_BYTES], request[API_ID_BYTES] = "";
	struct buf text = BUF_INIT;

	if (decision->kind == DECISION_DISPATCH || decision->kind == DECISION_QUEUE)
		return;
	if (decision->request)
		api_id(api, request, decision->request);
	decision_text(decision, &api->names, &text);
	store_add_decision(api->options.store,
	                   &(struct store_decision){
	                           .at_ms = epoch_now_ms(api),
	                           .id = api_id(api, id, decision->sequence),
	                           .kind = decision_kind_name(decision->kind),
	                           .reason = reason_name(decision->reason),
	                           .model = name_or_none(api, decision->model),
	                           .for_model = name_or_none(api, decision->for_model),
	                           .request = request,
	                           .text = buf_cstr(&text),
	                           .need_bytes = decision->need_bytes,
	                           .room_bytes = decision->room_bytes,
	                           .held_bytes = decision->held_bytes,
	                           .foreign_bytes = decision->foreign_bytes,
	                           .capacity_bytes = decision->capacity_bytes,
	                           .measured_bytes = decision->measured_bytes,
	                           .wait_ms = decision->wait_us / US_PER_MS,
	                           .load_ms = decision->load_us / US_PER_MS,
	                   });
	buf_release(&text);
}

static int64_t since_ms(int64_t at_us, int64_t from_us)
{
	return at_us > from_us ? (at_us - from_us) / US_PER_MS : 0;
}

void keep_request(struct api *api, const struct past_request *row)
{
	const struct exchange_end *end = &row->end;
	char id[API_ID_BYTES];
	int64_t waited_until_us = end->dispatched_at_us ? end->dispatched_at_us : end->ended_at_us;

	store_add_request(
	        api->options.store,
	        &(struct store_request){
	                .arrived_at_ms =
	                        epoch_now_ms(api) - since_ms(end->ended_at_us, end->arrived_at_us),
	                .id = api_id(api, id, end->sequence),
	                .model = name_or_none(api, end->model),
	                .key_name = row->key_name,
	                .path = row->path,
	                .priority = priority_name(end->priority),
	                .outcome = outcome_name(outcome_of(end)),
	                .status = outcome_status(end),
	                .wait_ms = since_ms(waited_until_us, end->arrived_at_us),
	                .load_ms = row->load_us / US_PER_MS,
	                .first_byte_ms = since_ms(end->first_byte_at_us, end->arrived_at_us),
	                .total_ms = since_ms(end->ended_at_us, end->arrived_at_us),
	                .bytes_in = end->bytes_in,
	                .bytes_out = end->bytes_out,
	                .tokens_in = end->tokens_in,
	                .tokens_out = end->tokens_out,
	        });
}
