/* nvidia-smi for the simulated GPUs: order of work, fatal messages, loops. Faults: see fault.h.
 * build: cc -O2 -Wall -Wextra -o nvidia-smi smi.c smi_args.c smi_query.c smi_apps.c smi_table.c process.c fault.c \
 *           hold.c device.c watcher.c context.c state.c */
#define _GNU_SOURCE
#include "smi.h"
#include "device.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static int code_to_status(int code) {
    return code > 0 && code < 255 && code != FG_RESET ? code : 255;
}

static int refuse_init(const struct smi_snapshot *look, int code, FILE *out) {
    if (code == FG_NO_DRIVER) {
        fputs("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
              "latest NVIDIA driver is installed and running.\n\n", out);
    } else if (code == FG_NO_LIBRARY) {
        fputs("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA "
              "Display Driver is properly installed and present in your system.\nPlease also try adding directory "
              "that contains libnvidia-ml.so to your system PATH.\n", out);
    } else {
        fprintf(out, "Failed to initialize NVML: %s\n", fg_code_text(code));
        const char *driver = look->card_count > 0 ? look->cards[0].driver : "", *end = strrchr(driver, '.');
        if (code == FG_MISMATCH) fprintf(out, "NVML library version: %.*s\n", (int)(end ? end - driver : 0), driver);
    }
    return code_to_status(code);
}

/* The message for one card that cannot be used ends the whole command, healthy cards included. */
static int refuse_card(const struct smi_snapshot *look, const struct fg_card *card, int code, int list, FILE *out) {
    fprintf(out, "Unable to determine the device handle for %s", list ? "gpu " : "GPU");
    if (fg_fault(&look->faults, "bus-in-message")) fprintf(out, "%s: ", card->bus_id + 4); /* a domain of 4 digits */
    else fprintf(out, "%d: ", card->index);
    if (code == FG_LOST) fputs("GPU is lost.  Reboot the system to recover this GPU\n\n\n", out);
    else if (code == FG_RESET) fputs("A GPU reset must occur before this GPU can be used again.\n\n.\n", out);
    else fprintf(out, "%s\n", fg_code_text(code));
    return code_to_status(code);
}

static int has_word(const char *list, const char *word, size_t length) {
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == length && !strncasecmp(at, word, length)) return 1;
    return 0;
}

static int is_selected(const char *select, const struct fg_card *card) {
    char index[16];
    if (!select) return 1;
    int length = snprintf(index, sizeof index, "%d", card->index);
    return has_word(select, index, (size_t)length) || has_word(select, card->uuid, strlen(card->uuid)) ||
           has_word(select, card->bus_id, strlen(card->bus_id));
}

int smi_select(const struct smi_request *request, struct smi_snapshot *look, FILE *out) {
    /* By index only the named card is touched; by uuid every card has to be asked for its own. */
    int by_name = request->select && strpbrk(request->select, ":G");
    for (int i = 0; i < look->card_count; i++) {
        int code = fg_fault_card_code(&look->faults, &look->cards[i]), chosen = is_selected(request->select, &look->cards[i]);
        if (code && code != FG_NO_PERMISSION && by_name) {
            const char *lost = "GPU is lost.  Reboot the system to recover this GPU";
            fprintf(out, "Problem with GPU %d: %s\n", i, code == FG_LOST ? lost : fg_code_text(code));
            return 255;
        }
        if (!chosen || (code == FG_NO_PERMISSION && !request->list)) continue;
        if (code && request->list) smi_list(look, out);
        if (code) return refuse_card(look, &look->cards[i], code, request->list, out);
        look->shown[look->shown_count++] = i;
    }
    if (look->shown_count) return 0;
    fputs(request->list && !request->select ? "No devices found.\n" : "No devices were found\n", out);
    return request->list && !request->select ? 0 : 6;
}

static int refuse_count(const struct smi_snapshot *look, FILE *out) {
    const char *status = fg_fault(&look->faults, "count-failed");
    fputs("Unable to determine the number of GPUs", out);
    return *status ? atoi(status) : 255;
}

static int answer(const struct smi_request *request, struct smi_snapshot *look, int header, FILE *out) {
    const char *exact = fg_fault(&look->faults, "exit"), *text;
    int code = fg_fault_init_code(&look->faults);
    if (!code) code = fg_driver_code();
    if (exact) {
        text = strchr(exact, ' ');
        fprintf(out, "%s\n", text ? text + 1 : "");
        return atoi(exact);
    }
    if (code) return refuse_init(look, code, out);
    if (fg_fault(&look->faults, "count-failed")) return refuse_count(look, out);
    if (fg_fault(&look->faults, "no-devices")) look->card_count = 0;
    if (request->version) return smi_version(look, out);
    int status = smi_select(request, look, out);
    if (status || !look->shown_count) return status;
    if (request->list) return smi_list(look, out);
    if (request->reset) return smi_reset(look, out);
    if (!request->fields) return smi_table(look, out);
    return (request->apps ? smi_query_apps : smi_query_gpu)(request, look, header, out);
}

static void take_look(struct smi_snapshot *look) {
    memset(look, 0, sizeof *look);
    fg_read_faults(&look->faults);
    fg_fault_wait(&look->faults);
    look->card_count = fg_visible_cards(look->cards);
    look->context_count = fg_read_contexts(look->contexts);
}

/* One block of output; `cut` and `empty` spoil it on the way out and end a loop. */
static int tick(const struct smi_request *request, int header, FILE *out, int *ended) {
    static struct smi_snapshot look;
    char *text = NULL;
    size_t length = 0;
    take_look(&look);
    FILE *buffer = open_memstream(&text, &length);
    int status = answer(request, &look, header, buffer);
    fclose(buffer);
    const char *cut = fg_fault(&look.faults, "cut");
    if (fg_fault(&look.faults, "empty")) length = 0;
    if (cut) {
        size_t keep = *cut ? strtoul(cut, NULL, 10) : length > 7 ? length - 7 : 0;
        if (keep < length) length = keep;
    }
    fwrite(text, 1, length, out);
    fflush(out);
    free(text);
    *ended = status || cut || fg_fault(&look.faults, "empty");
    return status;
}

/* Being a client of the driver, nvidia-smi has the device nodes open while it runs. */
static void open_like_a_client(void) {
    struct fg_card cards[FG_MAX_CARDS];
    fg_make_nodes();
    int count = fg_visible_cards(cards);
    fg_open_device("nvidiactl", 0);
    for (int i = 0; i < count; i++) fg_open_card(cards[i].minor, 0);
}

static int run(const struct smi_request *request, FILE *out) {
    struct timespec pause = {(time_t)request->every, (long)((request->every - (double)(time_t)request->every) * 1e9)};
    int header = request->header, ended = 0, status;
    open_like_a_client();
    for (;;) {
        status = tick(request, header, out, &ended);
        if (ended || request->every <= 0) return status;
        header = 0;
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv) {
    struct smi_request request = {0};
    FILE *out = stdout;
    int status = smi_parse(argc, argv, &request);
    if (status) return status;
    if (request.help) {
        puts("NVIDIA System Management Interface (simulated)\n\nnvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...");
        return 0;
    }
    if (request.persistence && geteuid() != 0) {
        puts("Unable to set persistence mode for GPU 00000000:01:00.0: Insufficient Permissions\n"
             "Terminating early due to previous errors.");
        return 4;
    }
    if (request.file && !(out = fopen(request.file, "we"))) {
        printf("Failed to create log file %s\n", request.file);
        return 255;
    }
    return run(&request, out);
}
