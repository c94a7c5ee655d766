#include "../cmocka_all.h"

#include "api/sentence.h"
#include "core/event.h"

enum { CHAT, SMALL };

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define S INT64_C(1000000)

static const char *name_of(void *ctx, uint32_t model)
{
	static const char *const names[] = { "chat", "small" };
	(void)ctx;
	return model < 2 ? names[model] : NULL;
}

static const struct names names = { NULL, name_of };

static void assert_says(const struct decision *decision, const char *wanted)
{
	struct buf text = BUF_INIT;

	decision_text(decision, &names, &text);
	assert_string_equal(buf_cstr(&text), wanted);
	buf_release(&text);
}

static void an_eviction_names_the_victim_the_beneficiary_and_the_numbers(void **state)
{
	(void)state;
	assert_says(&(struct decision){ .kind = DECISION_EVICT, .reason = REASON_LEAST_RECENT, .model = SMALL,
	                                .for_model = CHAT, .at_us = 999 * S, .idle_us = 245 * S,
	                                .measured_bytes = 350 * MIB,
	                                .need_bytes = 4710 * MIB, .room_bytes = 3174 * MIB,
	                                .capacity_bytes = 8 * GIB, .held_bytes = 4 * GIB,
	                                .foreign_bytes = 922 * MIB },
	            "evicted small (used 4 m 5 s ago, 350 MiB) to make room for chat: needs 4.60 GiB, "
	            "3.10 GiB free of 8.00 GiB");
	assert_says(&(struct decision){ .kind = DECISION_EVICT, .model = SMALL, .for_model = CHAT,
	                                .measured_bytes = 350 * MIB, .claim_bytes = 352 * MIB },
	            "evicted small (350 MiB) to make room for chat");
	assert_says(&(struct decision){ .kind = DECISION_EVICT, .model = SMALL, .for_model = CHAT,
	                                .measured_bytes = 350 * MIB, .claim_bytes = 410 * MIB },
	            "evicted small (350 MiB, claim: 410 MiB) to make room for chat");
}

static void what_was_weighed_stands_behind_the_numbers(void **state)
{
	struct decision decision = { .kind = DECISION_EVICT, .reason = REASON_ROOM, .model = SMALL, .for_model = CHAT,
		                     .measured_bytes = 4 * GIB, .regret_milli = 24050, .prefill_us = 6200000,
		                     .load_us = 7800000, .asked = 2,
		                     .asked_for = 1, .need_bytes = 3 * GIB, .room_bytes = GIB };

	(void)state;
	assert_says(&decision, "evicted small (4.00 GiB) to make room for chat: needs 3.00 GiB, 1.00 GiB free; asked for in "
	                       "the last hour: small twice, chat once; bringing small back takes 7.8 s and was expected to "
	                       "cost 24.1 s of waiting, weighted by class (6.2 s to read its conversations again)");
	decision = (struct decision){ .kind = DECISION_DRAIN, .model = SMALL, .for_model = CHAT, .running = 1,
		                      .load_us = 4 * S, .asked_for = 7 };
	assert_says(&decision, "small takes no new request, to make room for chat (1 running, 0 waiting); asked for in the "
	                       "last hour: small never, chat 7 times; bringing small back takes 4.0 s and was expected "
	                       "to cost next to nothing, so seldom is it asked for");
}

static void each_kind_is_one_sentence(void **state)
{
	static const struct {
		struct decision decision;
		const char *text;
	} rows[] = {
		{ { .kind = DECISION_LOAD, .reason = REASON_REQUEST, .need_bytes = 4 * GIB,
		    .room_bytes = 5 * GIB, .capacity_bytes = 8 * GIB, .foreign_bytes = 3 * GIB },
		  "loading chat for a request: needs 4.00 GiB, 5.00 GiB free of 8.00 GiB" },
		{ { .kind = DECISION_LOAD, .reason = REASON_OPERATOR, .need_bytes = 320 * MIB,
		    .room_bytes = 180 * MIB, .held_bytes = 320 * MIB, .capacity_bytes = 8 * GIB },
		  "loading chat by command: needs 320 MiB, 180 MiB free of 500 MiB allowed" },
		{ { .kind = DECISION_LOAD, .reason = REASON_PRELOAD }, "loading chat because it is to be loaded ahead "
		                                                       "(preload)" },
		{ { .kind = DECISION_READY, .load_us = 3100000, .need_bytes = 4 * GIB },
		  "chat is ready after 3.1 s, claims 4.00 GiB" },
		{ { .kind = DECISION_UNLOAD, .reason = REASON_IDLE },
		  "unloading chat because it was idle for its unload_after" },
		{ { .kind = DECISION_RELEASED, .measured_bytes = 350 * MIB, .machine_bytes = 352 * MIB,
		    .claim_bytes = 350 * MIB, .wait_us = 12000 },
		  "chat gave back 350 MiB (machine: 352 MiB), seen 12 ms after its end" },
		{ { .kind = DECISION_RELEASED, .measured_bytes = 350 * MIB, .machine_bytes = 352 * MIB,
		    .claim_bytes = 410 * MIB, .wait_us = 12000 },
		  "chat gave back 350 MiB (machine: 352 MiB, claim: 410 MiB), seen 12 ms after its end" },
		{ { .kind = DECISION_RELEASED, .measured_bytes = 350 * MIB, .machine_bytes = -20 * MIB,
		    .claim_bytes = 350 * MIB },
		  "chat gave back 350 MiB (machine: 20.0 MiB more in use)" },
		{ { .kind = DECISION_RELEASED, .claim_bytes = 410 * MIB, .machine_bytes = 300 * MIB },
		  "chat ended before it was measured (machine: 300 MiB, claim: 410 MiB)" },
		{ { .kind = DECISION_RELEASED, .claim_bytes = 350 * MIB, .measured_bytes = 350 * MIB, .outside = 1 },
		  "chat's server is let go of, it had 350 MiB" },
		{ { .kind = DECISION_DISPATCH, .wait_us = 2 * S, .running = 1, .queued = 2 },
		  "a request goes to chat after waiting 2.0 s (1 running, 2 waiting)" },
		{ { .kind = DECISION_QUEUE, .reason = REASON_LOADING, .queued = 1 },
		  "a request for chat waits for a load in flight (0 running, 1 waiting)" },
		{ { .kind = DECISION_QUEUE, .reason = REASON_LOADING, .queued = 1, .request_kind = REQUEST_LOAD },
		  "a load of chat by command waits for a load in flight (0 running, 1 waiting)" },
		{ { .kind = DECISION_DRAIN, .reason = REASON_OPERATOR, .for_model = MODEL_NONE, .running = 1 },
		  "chat takes no new request, to be unloaded by command when what runs has ended (1 running, 0 waiting)" },
		{ { .kind = DECISION_REFUSE, .fail = FAIL_WISH_REFUSED, .request_kind = REQUEST_UNLOAD },
		  "refused an unload of chat by command, it is busy or pinned" },
		{ { .kind = DECISION_REFUSE, .fail = FAIL_NEVER_FITS, .need_bytes = 40 * GIB,
		    .room_bytes = 6 * GIB, .capacity_bytes = 8 * GIB, .reason = REASON_LIMIT },
		  "refused a request for chat, it can never fit on this machine: needs at least 40.0 GiB, "
		  "at most 6.00 GiB can be free under memory.limit; raise memory.limit, or have it take less (context, "
		  "slots, kv_type)" },
		{ { .kind = DECISION_REFUSE, .fail = FAIL_NEVER_FITS, .need_bytes = 40 * GIB, .measured_bytes = 40 * GIB,
		    .room_bytes = 6 * GIB, .capacity_bytes = 8 * GIB, .reason = REASON_CAPACITY },
		  "refused a request for chat, it can never fit on this machine: needs at least 40.0 GiB as measured, "
		  "at most 6.00 GiB can be free; have it take less (context, slots, kv_type), or use a smaller "
		  "quantisation" },
		{ { .kind = DECISION_CANCEL, .fail = FAIL_CLIENT_GONE, .wait_us = 500000 },
		  "ended a request for chat after 500 ms, its client left" },
		{ { .kind = DECISION_LOAD_FAILED, .load_us = 2 * S, .wait_us = 4 * S },
		  "chat could not be loaded, after 2.0 s; next try in 4.0 s" },
		{ { .kind = DECISION_LOAD_FAILED, .reason = REASON_PRESSURE, .load_us = 2 * S, .wait_us = S },
		  "chat could not be loaded, after 2.0 s: the machine's memory ran short; next try in 1.0 s" },
		{ { .kind = DECISION_UNLOAD, .reason = REASON_CAPACITY },
		  "unloading chat because no request that came for it has room beside it" },
		{ { .kind = DECISION_LOAD, .reason = REASON_ALONE, .need_bytes = 12 * GIB, .room_bytes = 10 * GIB },
		  "loading chat into what is otherwise kept free, as nothing else could go for it: needs 12.0 GiB, "
		  "10.0 GiB free; the estimate may be too high, so it is tried and watched" },
		{ { .kind = DECISION_LOAD_FAILED, .load_us = 2 * S, .cause = CAUSE_CRASHED, .exit_status = 7 << 8 },
		  "chat could not be loaded, after 2.0 s: its engine ended by itself, with status 7" },
		{ { .kind = DECISION_LOAD_FAILED, .load_us = 2 * S, .cause = CAUSE_CRASHED, .exit_status = 11 },
		  "chat could not be loaded, after 2.0 s: its engine ended by itself, with signal 11 (Segmentation fault)" },
		{ { .kind = DECISION_LOAD_FAILED, .load_us = 2 * S, .cause = CAUSE_KILLED, .exit_status = 9 },
		  "chat could not be loaded, after 2.0 s (killed from outside, signal 9)" },
		{ { .kind = DECISION_LOAD_FAILED, .load_us = 2 * S, .reason = REASON_SLOW, .exit_status = 9 },
		  "chat could not be loaded, after 2.0 s: longer than start_timeout" },
		{ { .kind = DECISION_DIED, .running = 2, .cause = CAUSE_CRASHED, .exit_status = 1 << 8 },
		  "the engine of chat ended by itself, with status 1, with 2 requests running" },
		{ { .kind = DECISION_DIED, .cause = CAUSE_MACHINE_FULL },
		  "the engine of chat ended (killed by the kernel because the machine ran out of memory)" },
		{ { .kind = DECISION_DIED, .wait_us = S }, "chat could not be asked any more; next try in 1.0 s" },
		{ { .kind = DECISION_DRAIN, .for_model = SMALL, .running = 1 },
		  "chat takes no new request, to make room for small (1 running, 0 waiting)" },
		{ { .kind = DECISION_DRAIN_END, .reason = REASON_OVERDUE },
		  "chat serves again: it could not be drained in time" },
		{ { .kind = DECISION_DRAIN_END }, "chat serves again: its room is no longer needed" },
		{ { .kind = DECISION_PIN, .need_bytes = 1, .reason = REASON_OPERATOR }, "pinned chat by command" },
		{ { .kind = DECISION_PIN, .reason = REASON_OPERATOR }, "took the pin off chat by command" },
		{ { .kind = DECISION_PRESSURE, .need_bytes = PRESSURE_CRIT },
		  "the machine's memory is about to run out" },
		{ { .kind = DECISION_PRESSURE, .need_bytes = PRESSURE_NONE }, "the machine's memory suffices again" },
		{ { .kind = DECISION_EMERGENCY, .measured_bytes = GIB, .held_bytes = 2 * GIB,
		    .foreign_bytes = 6 * GIB, .capacity_bytes = 8 * GIB },
		  "EMERGENCY: ended chat to save the machine's memory (1.00 GiB): models hold 2.00 GiB, others "
		  "6.00 GiB, of 8.00 GiB" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_says(&rows[i].decision, rows[i].text);
}

/* Whatever numbers a decision holds, the text is one line and not empty. */
static void every_kind_and_reason_reads_as_one_line(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind <= DECISION_KIND_COUNT; kind++)
		for (uint32_t reason = 0; reason <= REASON_COUNT; reason++) {
			struct buf text = BUF_INIT;
			const struct decision decision = { .kind = kind, .reason = reason,
				                           .fail = reason, .model = MODEL_NONE,
				                           .for_model = 77, .need_bytes = INT64_MAX };
			decision_text(&decision, &names, &text);
			assert_true(buf_length(&text) > 5);
			assert_null(strchr(buf_cstr(&text), '\n'));
			buf_release(&text);
		}
}

static void a_model_that_is_gone_has_words_too(void **state)
{
	(void)state;
	assert_says(&(struct decision){ .kind = DECISION_READY, .model = 9 }, "a model that is gone is ready");
}

static void a_plan_names_who_would_go(void **state)
{
	struct plan plan = { .fits = FITS_AFTER_EVICTION, .reason = REASON_LIMIT, .peak_bytes = 5 * GIB,
		             .free_bytes = 3 * GIB, .victims = 1, .victim = { SMALL },
		             .victim_bytes = { 350 * MIB } };
	struct buf text = BUF_INIT;

	(void)state;
	plan_text(&plan, "chat", &names, &text);
	assert_string_equal(buf_cstr(&text),
	                    "chat fits after small (350 MiB) goes: needs 5.00 GiB at the peak of its load, "
	                    "3.00 GiB free under memory.limit");
	buf_release(&text);
}

/* What the load itself would say, not the model's own peak beside all that is free. */
static void a_plan_tells_the_numbers_it_was_made_by(void **state)
{
	struct plan plan = { .fits = FITS_NOT_NOW, .reason = REASON_PINS, .peak_bytes = 162 * MIB,
		             .free_bytes = 156 * MIB, .asked_bytes = 320 * MIB, .room_bytes = 255 * MIB };
	struct buf text = BUF_INIT;

	(void)state;
	plan_text(&plan, "chat", &names, &text);
	assert_string_equal(buf_cstr(&text), "chat has to wait for busy or pinned models: needs 320 MiB, 255 MiB free "
	                                     "beside what is pinned or busy");
	buf_release(&text);
	plan = (struct plan){ .fits = FITS_NOW, .loaded = true, .peak_bytes = 173 * MIB, .free_bytes = 156 * MIB };
	plan_text(&plan, "chat", &names, &text);
	assert_string_equal(buf_cstr(&text), "chat is loaded: nothing has to go for it");
	buf_release(&text);
}

/* The room is then not what is left of a whole beside all that is held. */
static void a_room_without_some_has_no_whole(void **state)
{
	struct decision decision = { .kind = DECISION_REFUSE, .reason = REASON_PINS, .fail = FAIL_NO_ROOM,
		                     .need_bytes = 320 * MIB, .room_bytes = 255 * MIB, .held_bytes = 264 * MIB,
		                     .capacity_bytes = 8 * GIB };
	struct buf text = BUF_INIT;

	(void)state;
	decision_text(&decision, &names, &text);
	assert_non_null(strstr(buf_cstr(&text), "needs 320 MiB, 255 MiB free beside what is pinned or busy"));
	buf_release(&text);
	assert_says(&(struct decision){ .kind = DECISION_GROW, .reason = REASON_REQUEST, .context_was = 512,
	                                .context_tokens = 2048, .need_bytes = 292 * MIB, .room_bytes = 420 * MIB,
	                                .held_bytes = 97 * MIB, .capacity_bytes = 8 * GIB },
	            "growing the context of chat from 512 to 2048 tokens for a request: needs 292 MiB, 420 MiB free");
}

static void a_waiting_model_says_for_what(void **state)
{
	const struct model_spec spec = { .name = "chat" };
	const struct model_view view = { .spec = &spec, .state = MODEL_QUEUED, .reason = REASON_PINS,
		                         .queued = 2 };
	struct buf text = BUF_INIT;

	(void)state;
	model_text(&view, 10 * S, &text);
	assert_string_equal(buf_cstr(&text), "chat is not loaded yet, waits for room that pinned or busy models "
	                                     "hold; 2 requests wait for it");
	buf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_eviction_names_the_victim_the_beneficiary_and_the_numbers),
		cmocka_unit_test(what_was_weighed_stands_behind_the_numbers),
		cmocka_unit_test(each_kind_is_one_sentence),
		cmocka_unit_test(every_kind_and_reason_reads_as_one_line),
		cmocka_unit_test(a_model_that_is_gone_has_words_too),
		cmocka_unit_test(a_plan_names_who_would_go),
		cmocka_unit_test(a_plan_tells_the_numbers_it_was_made_by),
		cmocka_unit_test(a_room_without_some_has_no_whole),
		cmocka_unit_test(a_waiting_model_says_for_what),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
