/* Of the files that the readings stand on: each is told once when it is no use, and once when it is again. */
#include "app/shell.h"
#include "base/log.h"

void shell_tell_inputs(struct shell *shell, const struct inputs *inputs)
{
	char text[2 * INPUT_NAME_BYTES];

	for (uint32_t i = 0; i < inputs->count; i++) {
		const struct input *input = &inputs->list[i];
		if (!inputs_have_news(&shell->told_inputs, input))
			continue;
		input_describe(input, text, sizeof(text));
		if (input_is_degraded(input))
			log_warn("memory: %s", text);
		else
			log_info("memory: %s can be read again", input->name);
	}
}
