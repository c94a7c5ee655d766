#include "core/habit.h"

#include "core/instance.h"
#include "core/kept.h"
#include "core/ledger.h"
#include "core/model.h"
#include "core/policy.h"

#define SECOND INT64_C(1000000)
#define ASKED_SPAN_US (3600 / ASKED_KEPT * SECOND)

static const double horizon_s = 600;

/* e^-x for x >= 0, by halving and squaring: no libm, the same bits everywhere. */
static double decay(double x)
{
	int halvings = 0;

	if (x > 40)
		return 0;
	while (x > 0.125) {
		x /= 2;
		halvings++;
	}
	double sum = 1 - x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6)))));
	while (halvings-- > 0)
		sum *= sum;
	return sum;
}

/* The five minutes that are counted now; those that nobody asked in are emptied. */
static void turn_asked(const struct arbiter *a, struct habit *habit)
{
	int64_t now = a->now / ASKED_SPAN_US;

	if (now - habit->asked_at >= ASKED_KEPT)
		habit->asked_at = now - ASKED_KEPT;
	while (habit->asked_at < now)
		habit->asked[++habit->asked_at % ASKED_KEPT] = 0;
}

uint32_t habit_asked(const struct arbiter *a, const struct model *model)
{
	struct habit habit = model->habit;
	uint32_t asked = 0;

	turn_asked(a, &habit);
	for (uint32_t i = 0; i < ASKED_KEPT; i++)
		asked += habit.asked[i];
	return asked;
}

void habit_arrived(struct arbiter *a, struct model *model, const struct request *request)
{
	struct habit *habit = &model->habit;
	double weight = (double)class_weight(request->spec.priority);
	double gap = habit_seconds(a->now - habit->last_arrival);

	habit->class_weight = habit_class_weight(model) * 0.85 + 0.15 * weight;
	if (habit->arrivals > 0 && gap < 0.2)
		gap = 0.2;
	if (habit->arrivals > 0)
		habit->rate = habit->rate > 0 ? 1 / (0.75 / habit->rate + 0.25 * gap) : 1 / gap;
	if (habit->arrivals < UINT32_MAX)
		habit->arrivals++;
	habit->last_arrival = a->now;
	model_touch(a, model);
	turn_asked(a, habit);
	habit->asked[habit->asked_at % ASKED_KEPT]++;
}

void habit_served(struct arbiter *a, struct model *model, const struct request *request)
{
	struct habit *habit = &model->habit;
	double took = habit_seconds(a->now - request->started_at);

	model->next_depth = 0;
	habit->service_s = habit->service_s > 0 ? 0.9 * habit->service_s + 0.1 * took : took;
	habit->last_end = a->now;
	model_touch(a, model);
}

void habit_prefilled(struct model *model, int64_t tokens, int64_t took_us)
{
	double each = habit_seconds(took_us) / (double)tokens;
	double *known = &model->habit.prefill_s;

	*known = *known > 0 ? *known + 0.2 * (each - *known) : each;
}

void habit_turn(struct model *model, const struct request *request)
{
	struct habit *habit = &model->habit;
	uint32_t place = habit->turns % TURNS_KEPT;

	model->next_depth = 0;
	habit->turn_key[place] = request->spec.key;
	habit->turn_conversation[place] = request->spec.conversation;
	if (++habit->turns == 2 * TURNS_KEPT)
		habit->turns = TURNS_KEPT; /* only its remainder counts from here */
}

uint32_t habit_lateness(const struct model *model, const struct request *request)
{
	const struct habit *habit = &model->habit;
	uint32_t kept = habit->turns < TURNS_KEPT ? habit->turns : TURNS_KEPT;
	uint32_t key = 0, conversation = 0;

	if (request->spec.waited_us)
		return 0; /* it has had its turn, and nothing came of that */
	for (uint32_t i = 0; i < kept && !key; i++) {
		uint32_t place = (habit->turns - 1 - i) % TURNS_KEPT;
		if (habit->turn_key[place] == request->spec.key)
			key = TURNS_KEPT - i;
	}
	for (uint32_t i = 0; i < kept && !conversation && request->spec.conversation; i++) {
		uint32_t place = (habit->turns - 1 - i) % TURNS_KEPT;
		if (habit->turn_conversation[place] == request->spec.conversation)
			conversation = TURNS_KEPT - i;
	}
	return key * (TURNS_KEPT + 1) + conversation;
}

/* Of an earlier load, or as the catalogue expects it; 0: nobody knows. */
static double load_known(const struct model *model)
{
	if (model->habit.load_s > 0)
		return model->habit.load_s;
	int64_t known = model->learned.loads ? model->learned.load_us : model->spec.load_expected_us;
	return known > 0 ? habit_seconds(known) : 0;
}

double habit_load_s(const struct model *model)
{
	double known = load_known(model);

	return known > 0 ? known : 5;
}

void habit_loaded(struct arbiter *a, struct model *model)
{
	(void)a;
	double took = habit_seconds(model->last_load_us), before = habit_load_s(model);
	model->habit.load_s = load_known(model) > 0 ? before + 0.3 * (took - before) : took;
}

double habit_service_s(const struct model *model, const struct request *request)
{
	if (request->spec.kind != REQUEST_INFER)
		return 0;
	if (request->spec.expected_us > 0)
		return habit_seconds(request->spec.expected_us);
	return model->habit.service_s > 0 ? model->habit.service_s : 5;
}

double habit_class_weight(const struct model *model)
{
	return model->habit.class_weight > 0 ? model->habit.class_weight : 2;
}

double habit_again(double age_s)
{
	return decay(age_s > 0 ? age_s / horizon_s : 0);
}

/* How often it is asked for in the horizon: as it was used to be, or as long as it has not been. */
static double expected_arrivals(const struct arbiter *a, const struct model *model)
{
	const struct habit *habit = &model->habit;
	double rate = habit->rate;

	if (rate <= 0)
		return 0;
	int64_t last = habit->last_end > habit->last_arrival ? habit->last_end : habit->last_arrival;
	double idle = habit_seconds(a->now - last);
	if (idle > 1 / rate)
		rate = 1 / idle;
	return rate * horizon_s;
}

double habit_wanted(const struct arbiter *a, const struct model *model)
{
	double arrivals = expected_arrivals(a, model);

	return arrivals > 0 ? 1 - decay(arrivals) : 0;
}

double habit_wanted_least(const struct arbiter *a, const struct model *model)
{
	double arrivals = expected_arrivals(a, model);

	return arrivals / (1 + arrivals);
}
