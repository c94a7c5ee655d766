/* What came of simulated days, as JSON and as tables. */
#include <stdio.h>

#include "app/cli_json.h"
#include "app/cli_sim.h"
#include "app/cli_table.h"
#include "sim/faults.h"

/* ---- JSON ---- */

static json_t *faults_json(const struct study_result *r)
{
	json_t *json = json_object();

	for (uint32_t kind = 0; fault_name(kind); kind++)
		json_object_set_new(json, fault_name(kind), json_integer((json_int_t)r->faults[kind]));
	return json;
}

static json_t *figures_json(const struct sim_order *order, const struct study_result *r)
{
	json_t *json = json_object();
	json_t *p95 = json_pack("{s:f, s:f, s:f}", "interactive", r->wait_p95_s[0], "normal",
	                        r->wait_p95_s[1], "batch", r->wait_p95_s[2]);

	json_object_set_new(json, "wait_mean_s", json_real(r->wait_mean_s));
	json_object_set_new(json, "wait_interactive_mean_s", json_real(r->wait_interactive_mean_s));
	json_object_set_new(json, "wait_p95_s", p95);
	json_object_set_new(json, "wait_max_s", json_real(r->wait_max_s));
	json_object_set_new(json, "response_weighted_s", json_real(r->response_weighted_s));
	json_object_set_new(json, "loads_per_hour", json_real(r->loads_per_hour));
	json_object_set_new(json, "oom_per_hour", json_real(r->oom_per_hour));
	json_object_set_new(json, "memory_used_mean", json_real(r->memory_used_mean));
	json_object_set_new(json, "requests", json_integer((json_int_t)r->requests));
	json_object_set_new(json, "finished", json_integer((json_int_t)r->finished));
	json_object_set_new(json, "rejected", json_integer((json_int_t)r->rejected));
	json_object_set_new(json, "unfinished", json_integer((json_int_t)r->unfinished));
	json_object_set_new(json, "left", json_integer((json_int_t)r->left));
	json_object_set_new(json, "overdue_max_s", json_real(r->overdue_max_s));
	json_object_set_new(json, "overdue_bound_s", json_real(r->overdue_bound_s));
	json_object_set_new(json, "hours", json_real(r->hours));
	json_object_set_new(json, "invariant_violations",
	                    json_integer((json_int_t)r->invariant_violations));
	if (order->faults)
		json_object_set_new(json, "faults", faults_json(r));
	return json;
}

static json_t *models_json(const struct scene *scene, const struct study_result *mean)
{
	json_t *models = json_object();

	for (uint32_t m = 0; m < scene->models; m++) {
		const struct study_model *model = &mean->model[m];
		if (scene->model[m].external)
			continue;
		json_object_set_new(models, scene->model[m].name,
		                    json_pack("{s:I, s:f, s:f, s:f}", "requests", (json_int_t)model->requests,
		                              "wait_mean_s", model->wait_mean_s, "response_mean_s",
		                              model->response_mean_s, "loads_per_hour",
		                              mean->hours > 0 ? (double)model->loads / mean->hours : 0));
	}
	return models;
}

static void tell_json(const struct sim_order *order, const struct scene *scene,
                      const struct study_result *results)
{
	json_t *runs = json_array();
	struct study_result mean = sim_mean(results, order->runs);

	for (uint32_t i = 0; i < order->runs; i++) {
		json_t *run = json_pack("{s:I}", "seed", (json_int_t)results[i].seed);
		json_t *figures = figures_json(order, &results[i]);
		json_object_update(run, figures);
		json_decref(figures);
		json_array_append_new(runs, run);
	}
	json_print(json_pack("{s:s, s:s, s:f, s:o, s:o, s:o}", "workload", order->workload, "policy",
	                     order->policy, "load", order->load, "runs", runs, "mean",
	                     figures_json(order, &mean), "models", models_json(scene, &mean)));
}

/* ---- tables ---- */

static const char *const titles[] = {
	"", ">wait s", ">95 of 100 int.", ">longest", ">response", ">loads/h", ">OOM/h", ">memory", NULL,
};

static void add_row(struct table *table, const char *name, const struct study_result *r)
{
	table_add(table, "%s", name);
	table_add(table, "%.2f", r->wait_mean_s);
	table_add(table, "%.2f", r->wait_p95_s[0]);
	table_add(table, "%.1f", r->wait_max_s);
	table_add(table, "%.2f", r->response_weighted_s);
	table_add(table, "%.1f", r->loads_per_hour);
	table_add(table, "%.3f", r->oom_per_hour);
	table_add(table, "%.0f %%", 100 * r->memory_used_mean);
}

static void print_table(struct table *table)
{
	struct buf text = BUF_INIT;

	table_end(table, &text);
	fputs(buf_cstr(&text), stdout);
	buf_release(&text);
}

static void tell_models(const struct scene *scene, const struct study_result *mean)
{
	static const char *const model_titles[] = { "model", ">requests", ">wait s", ">response", ">loads/h", NULL };
	struct table table;

	table_begin(&table, model_titles);
	for (uint32_t m = 0; m < scene->models; m++) {
		const struct study_model *model = &mean->model[m];
		if (scene->model[m].external)
			continue;
		table_add(&table, "%s", scene->model[m].name);
		table_add(&table, "%llu", (unsigned long long)model->requests);
		table_add(&table, "%.2f", model->wait_mean_s);
		table_add(&table, "%.2f", model->response_mean_s);
		table_add(&table, "%.1f", mean->hours > 0 ? (double)model->loads / mean->hours : 0);
	}
	putchar('\n');
	print_table(&table);
}

static void tell_faults(const struct study_result *mean)
{
	printf("\nfaults:");
	for (uint32_t kind = 0; fault_name(kind); kind++)
		printf(" %s %llu", fault_name(kind), (unsigned long long)mean->faults[kind]);
	printf("\nlongest from overdue to its load: %.0f s, by the stated bound %.0f s at most\n",
	       mean->overdue_max_s, mean->overdue_bound_s);
}

void sim_tell(const struct sim_order *order, const struct scene *scene, const struct study_result *results,
              bool json)
{
	struct study_result mean = sim_mean(results, order->runs);
	struct table table;
	char seed[24];

	if (json) {
		tell_json(order, scene, results);
		return;
	}
	printf("%s, %s, %llu requests\n", order->workload, order->policy, (unsigned long long)mean.requests);
	table_begin(&table, titles);
	for (uint32_t i = 0; i < order->runs; i++) {
		snprintf(seed, sizeof(seed), "seed %llu", (unsigned long long)results[i].seed);
		add_row(&table, seed, &results[i]);
	}
	add_row(&table, "mean", &mean);
	print_table(&table);
	tell_models(scene, &mean);
	if (order->faults)
		tell_faults(&mean);
	if (mean.rejected || mean.unfinished)
		printf("\n%llu failed, %llu had no answer at the end\n", (unsigned long long)mean.rejected,
		       (unsigned long long)mean.unfinished);
}

void sim_tell_policies(const struct sim_order *order, const struct study_result *means, uint32_t count, bool json)
{
	struct table table;

	if (json) {
		json_t *policies = json_object();
		for (uint32_t i = 0; i < count; i++)
			json_object_set_new(policies, study_policy(i), figures_json(order, &means[i]));
		json_print(json_pack("{s:s, s:f, s:I, s:o}", "workload", order->workload, "load", order->load,
		                     "seeds", (json_int_t)order->runs, "policies", policies));
		return;
	}
	table_begin(&table, titles);
	for (uint32_t i = 0; i < count; i++)
		add_row(&table, study_policy(i), &means[i]);
	print_table(&table);
}
