/* A picture of the policies side by side: of each figure one group of bars, the longest the worst. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "app/cli_sim.h"

enum { LEFT = 150, BAR = 16, WIDE = 420, GAP = 34 };

static const struct figure {
	const char *title;
	size_t at;
} figures[] = {
	{ "mean wait, s", offsetof(struct study_result, wait_mean_s) },
	{ "interactive wait, 95 of 100, s", offsetof(struct study_result, wait_p95_s) },
	{ "longest wait, s", offsetof(struct study_result, wait_max_s) },
	{ "response by weight, s", offsetof(struct study_result, response_weighted_s) },
	{ "loads an hour", offsetof(struct study_result, loads_per_hour) },
	{ "out of memory, an hour", offsetof(struct study_result, oom_per_hour) },
};

enum { FIGURES = sizeof(figures) / sizeof(figures[0]) };

static double value_of(const struct study_result *result, const struct figure *figure)
{
	double value;

	memcpy(&value, (const char *)result + figure->at, sizeof(value));
	return value;
}

static void draw_figure(FILE *out, const struct figure *figure, const struct study_result *results,
                        uint32_t count, double y)
{
	double most = 0;

	for (uint32_t i = 0; i < count; i++)
		most = fmax(most, value_of(&results[i], figure));
	fprintf(out, "<text x=\"8\" y=\"%.0f\" font-weight=\"bold\">%s</text>\n", y, figure->title);
	for (uint32_t i = 0; i < count; i++) {
		double value = value_of(&results[i], figure), at = y + 8 + BAR * i;
		double wide = most > 0 ? WIDE * value / most : 0;
		fprintf(out, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n", LEFT - 8,
		        at + BAR - 4, study_policy(i));
		fprintf(out, "<rect x=\"%d\" y=\"%.0f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
		        LEFT, at + 2, wide, BAR - 4, i == 0 ? "#2a6f97" : "#a9b4bd");
		fprintf(out, "<text x=\"%.0f\" y=\"%.0f\">%.4g</text>\n", LEFT + wide + 6, at + BAR - 4,
		        value);
	}
}

/* What means nothing in XML; the rest of a name is left out. */
static void put_plain(FILE *out, const char *text)
{
	for (; *text; text++)
		if (isalnum((unsigned char)*text) || strchr(" -_.,", *text))
			fputc(*text, out);
}

int cli_sim_svg(const char *path, const char *title, const struct study_result *results, uint32_t count)
{
	double group = GAP + BAR * (double)count;
	FILE *out = fopen(path, "we");

	if (!out)
		return -errno;
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"660\" height=\"%.0f\" "
	             "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" "
	             "fill=\"#ffffff\"/>\n<text x=\"8\" y=\"20\" font-size=\"14\">",
	        40 + group * FIGURES);
	put_plain(out, title);
	fputs("</text>\n", out);
	for (uint32_t i = 0; i < FIGURES; i++)
		draw_figure(out, &figures[i], results, count, 46 + group * i);
	fputs("</svg>\n", out);
	return fclose(out) == 0 ? 0 : -errno;
}
