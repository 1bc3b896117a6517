/* The command line of nvidia-smi. See smi.h. Part of nvidia-smi (flags: see smi.c). */
#define _GNU_SOURCE
#include "smi.h"

#include <stdlib.h>
#include <string.h>

struct arguments {
    int count, next;
    char **words;
};

/* Is `word` the option, alone or as NAME=VALUE? Sets *value to what follows '=' (or NULL). */
static int is_option(const char *word, const char *name, const char **value) {
    size_t length = strlen(name);
    if (strncmp(word, name, length)) return 0;
    if (word[length] && word[length] != '=') return 0;
    *value = word[length] ? word + length + 1 : NULL;
    return 1;
}

static const char *value_of(struct arguments *arguments, const char *attached) {
    if (attached) return attached;
    if (arguments->next >= arguments->count) return NULL;
    const char *word = arguments->words[arguments->next];
    if (word[0] == '-' && word[1] && (word[1] < '0' || word[1] > '9')) return NULL;
    arguments->next++;
    return word;
}

static int set_query(struct smi_request *request, const char *fields, int apps) {
    if (request->fields) {
        puts("Only one --query-* switch can be used at a time.\n");
        return 2;
    }
    request->fields = fields ? fields : "";
    request->apps = apps;
    return 0;
}

static int set_loop(struct smi_request *request, const char *text, double unit) {
    request->every = (text ? atof(text) : 5.0) * unit;
    if (request->every > 0) return 0;
    puts("Provided [-l(ms) | --loop(-ms)=] value is incorrect. Loop frequency must be greater than 0.");
    return 2;
}

static int take_word(struct arguments *arguments, struct smi_request *request) {
    const char *word = arguments->words[arguments->next++], *value = NULL;
    if (is_option(word, "--query-gpu", &value)) return set_query(request, value_of(arguments, value), 0);
    if (is_option(word, "--query-compute-apps", &value)) return set_query(request, value_of(arguments, value), 1);
    if (is_option(word, "-lms", &value) || is_option(word, "--loop-ms", &value))
        return set_loop(request, value_of(arguments, value), 0.001);
    if (is_option(word, "-l", &value) || is_option(word, "--loop", &value))
        return set_loop(request, value_of(arguments, value), 1.0);
    if (is_option(word, "--format", &value)) request->format = value_of(arguments, value);
    else if (is_option(word, "-i", &value) || is_option(word, "--id", &value)) request->select = value_of(arguments, value);
    else if (is_option(word, "-f", &value) || is_option(word, "--filename", &value)) request->file = value_of(arguments, value);
    else if (!strcmp(word, "-L") || !strcmp(word, "--list-gpus")) request->list = 1;
    else if (!strcmp(word, "-r") || !strcmp(word, "--gpu-reset")) request->reset = 1;
    else if (!strcmp(word, "-h") || !strcmp(word, "--help")) request->help = 1;
    else if (!strcmp(word, "--version")) request->version = 1;
    else if (is_option(word, "-pm", &value) || is_option(word, "--persistence-mode", &value))
        request->persistence = value_of(arguments, value) != NULL;
    else {
        printf("ERROR: Option %s is not recognized. Please run 'nvidia-smi -h'.\n\n", word);
        return 255;
    }
    return 0;
}

static int read_format(struct smi_request *request) {
    request->header = request->units = 1;
    if (!request->format) {
        puts("\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n");
        return 2;
    }
    char *copy = strdup(request->format), *rest = copy;
    int csv = 0, bad = 0;
    for (char *word; (word = strsep(&rest, ","));) {
        if (!strcmp(word, "csv")) csv = 1;
        else if (!strcmp(word, "noheader")) request->header = 0;
        else if (!strcmp(word, "nounits")) request->units = 0;
        else bad = 1;
    }
    free(copy);
    if (csv && !bad) return 0;
    puts("Format modifier is not recognized.\n");
    return 2;
}

int smi_parse(int argc, char **argv, struct smi_request *request) {
    struct arguments arguments = {argc, 1, argv};
    while (arguments.next < arguments.count) {
        int status = take_word(&arguments, request);
        if (status) return status;
    }
    return request->fields ? read_format(request) : 0;
}
