#include <string.h>

#include "conf/conf.h"

/* Flags that decide what is decided for each start; who needs one runs the engine as a `cmd`. */

static const char *const of_llama[] = {
	"--host", "--port", "--reuse-port", "--api-key", "--api-key-file", "--api-prefix", "--ssl-key-file",
	"--ssl-cert-file", "-m", "--model", "-mu", "--model-url", "-hf", "-hfr", "--hf-repo", "-dr",
	"--docker-repo", "--models-dir", "--models-preset", "--models-max", "--sleep-idle-seconds", NULL,
};

static const char *const of_whisper[] = {
	"--host", "--port", "--inference-path", "--request-path", "-m", "--model", NULL,
};

static const char *const of_sd[] = { "-l", "--listen-ip", "--listen-port", "-m", "--model", NULL };

static const char *const *flags_of(enum conf_engine engine)
{
	static const char *const none[] = { NULL };

	switch (engine) {
	case CONF_ENGINE_LLAMA_SERVER:
		return of_llama;
	case CONF_ENGINE_WHISPER_SERVER:
		return of_whisper;
	case CONF_ENGINE_SD_SERVER:
		return of_sd;
	case CONF_ENGINE_UNSET:
	case CONF_ENGINE_COMFYUI:
	case CONF_ENGINE_VLLM:
	case CONF_ENGINE_OLLAMA:
	case CONF_ENGINE_COMMAND:
	case CONF_ENGINE_COUNT:
		break;
	}
	return none;
}

const char *conf_reserved_flag(const struct conf_model *model)
{
	for (size_t i = 0; i < model->args.count; i++)
		for (const char *const *flag = flags_of(model->engine); *flag; flag++)
			if (strcmp(model->args.items[i], *flag) == 0)
				return *flag;
	return NULL;
}
