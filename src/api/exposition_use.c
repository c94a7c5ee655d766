/* /metrics, second part: sets and their targets, how models slow one another, what is warm. */
#include "api/inside.h"

static void put_set(const struct api *api, const struct call *call, const struct conf_set *set, struct buf *out)
{
	const struct conf *conf = api->host.conf(api->host.ctx);

	for (size_t i = 0; i < set->models.count; i++) {
		int model = conf_resolve(conf, str_from(set->models.items[i]), NULL);
		if (model < 0 || !api_may_see(api, call, (uint32_t)model))
			continue;
		const struct label met[] = { { "set", set->name }, { "model", set->models.items[i] },
			                     { "target", "met" }, { 0 } };
		const struct label missed[] = { { "set", set->name }, { "model", set->models.items[i] },
			                        { "target", "missed" }, { 0 } };
		metric_int(out, "cotenant_set_first_byte_total", met, (int64_t)api->metrics.begun[model]);
		metric_int(out, "cotenant_set_first_byte_total", missed,
		           (int64_t)api->metrics.begun_late[model]);
	}
}

void put_sets(const struct api *api, const struct call *call, struct buf *out)
{
	const struct conf *conf = api->host.conf(api->host.ctx);

	metric_head(out, "cotenant_set_first_byte_total", METRIC_COUNTER,
	            "Requests to models of a set with a target for the first byte, by whether it was met.");
	for (size_t i = 0; i < conf->set_count; i++)
		if (conf->sets[i].first_byte_us)
			put_set(api, call, &conf->sets[i], out);
}

void put_pace(const struct arbiter *arbiter, struct buf *out)
{
	struct pool_view pool;
	char number[16], crowd[16];

	metric_head(out, "cotenant_active_models_most", METRIC_GAUGE,
	            "For so many models at once all together are fastest; interactive ones may be one more.");
	for (uint32_t i = 0; i < arbiter_pools(arbiter); i++) {
		arbiter_pool(arbiter, i, &pool);
		snprintf(number, sizeof(number), "%u", i);
		const struct label labels[] = { { "pool", i ? number : "ram" }, { 0 } };
		metric_int(out, "cotenant_active_models_most", labels, (int64_t)pool.active_most);
	}
	metric_head(out, "cotenant_shared_speed_percent", METRIC_GAUGE,
	            "Speed of a model among so many at once, of its speed alone, as answers told.");
	for (uint32_t i = 0; i < arbiter_pools(arbiter); i++) {
		arbiter_pool(arbiter, i, &pool);
		snprintf(number, sizeof(number), "%u", i);
		for (uint32_t k = 0; k < sizeof(pool.speed_shared) / sizeof(pool.speed_shared[0]); k++) {
			snprintf(crowd, sizeof(crowd), "%u", k + 2);
			const struct label labels[] = { { "pool", i ? number : "ram" }, { "models", crowd }, { 0 } };
			if (pool.speed_shared[k] > 0)
				metric_int(out, "cotenant_shared_speed_percent", labels,
				           (int64_t)(pool.speed_shared[k] * 100 + 0.5));
		}
	}
}
