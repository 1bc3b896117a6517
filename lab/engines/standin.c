/* standin --port P [--host H] [--gpu 0[,1]] [--mib 20000] [--ready S] [--stop S] [--delay S]
 *
 * The lightest engine that behaves like one, for measuring what a restart costs beside the engine: it is
 * ready 1.0 s after its start, ends 0.3 s after SIGTERM, and its memory is free 0.5 s after its death.
 * Answers GET /health and POST /v1/completions. Port taken: exit 1 at once. Memory short: exit 1.
 * build: cc -O2 -Wall -Wextra -I../gpus -o standin standin.c ../gpus/{hold,device,watcher,context,state}.c */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../gpus/hold.h"
#include "../gpus/state.h"

struct settings {
    char *cards;
    const char *host;
    unsigned long long mib;
    double ready, stop, delay;
    int port;
};

static const char BODY_HEALTH[] = "{\"status\":\"ok\"}";
static const char BODY_COMPLETION[] =
    "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"model\":\"standin\",\"choices\":[{\"index\":0,\"text\":\" Paris.\","
    "\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":2,\"total_tokens\":8}}";

static int parse(int argc, char **argv, struct settings *settings) {
    static const struct option OPTIONS[] = {{"port", 1, 0, 'p'}, {"host", 1, 0, 'h'}, {"gpu", 1, 0, 'g'},
                                            {"mib", 1, 0, 'm'}, {"ready", 1, 0, 'r'}, {"stop", 1, 0, 's'},
                                            {"delay", 1, 0, 'd'}, {0, 0, 0, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1) {
        if (option == 'p') settings->port = atoi(optarg);
        else if (option == 'h') settings->host = optarg;
        else if (option == 'g') settings->cards = optarg;
        else if (option == 'm') settings->mib = strtoull(optarg, NULL, 10);
        else if (option == 'r') settings->ready = atof(optarg);
        else if (option == 's') settings->stop = atof(optarg);
        else if (option == 'd') settings->delay = atof(optarg);
        else return 0;
    }
    return settings->port > 0 && optind == argc;
}

/* One line in the machine's ledger of starts: two live lines for one port are a double launch. */
static void note_start(const struct settings *settings) {
    char path[4096], line[512];
    struct timespec now;
    const char *launch = getenv("RELAUNCH_LAUNCH_ID");
    clock_gettime(CLOCK_REALTIME, &now);
    FILE *ledger = fopen(fg_path(path, sizeof path, "ledger"), "ae");
    if (!ledger) return;
    snprintf(line, sizeof line, "{\"time\": %lld.%06ld, \"pid\": %d, \"kind\": \"standin\", \"port\": %d, \"launch\": \"%s\"}\n",
             (long long)now.tv_sec, now.tv_nsec / 1000, (int)getpid(), settings->port, launch ? launch : "");
    fputs(line, ledger);
    fclose(ledger);
}

static void hold_cards(const struct settings *settings) {
    char *rest = strdup(settings->cards);
    for (char *word; settings->mib && (word = strsep(&rest, ","));) {
        int result = fg_take(atoi(word), settings->mib, settings->delay > 0 ? "delay" : "normal", settings->delay, 0);
        if (result >= 0) continue;
        fprintf(stderr, result == FG_HOLD_NO_ROOM ? "CUDA out of memory. Tried to allocate %.2f GiB on GPU %s.\n"
                                                  : "CUDA error: cannot take %.2f GiB on GPU %s.\n",
                (double)settings->mib / 1024, word);
        exit(1);
    }
}

/* Bound at once (a conflict shows in milliseconds), listening only when ready. */
static int bind_port(const struct settings *settings) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)settings->port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, settings->host, &address.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address)) {
        fprintf(stderr, "error while attempting to bind on address ('%s', %d): %s\n", settings->host, settings->port,
                strerror(errno));
        exit(1);
    }
    return fd;
}

static void answer(int client) {
    char request[8192], head[256];
    struct timeval patience = {.tv_sec = 2};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t length = recv(client, request, sizeof request - 1, 0);
    if (length <= 0) return;
    request[length] = 0;
    const char *body = "{\"error\":\"Not Found\"}";
    int status = 404;
    if (!strncmp(request, "GET /health", 11)) body = BODY_HEALTH, status = 200;
    if (!strncmp(request, "POST /v1/completions", 20)) body = BODY_COMPLETION, status = 200;
    int size = snprintf(head, sizeof head,
                        "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                        status, status == 200 ? "OK" : "Not Found", strlen(body));
    send(client, head, (size_t)size, MSG_NOSIGNAL | MSG_MORE);
    send(client, body, strlen(body), MSG_NOSIGNAL);
    shutdown(client, SHUT_WR);
    while (recv(client, request, sizeof request, 0) > 0) continue;
}

/* Waits for SIGTERM until `deadline` (ns; 0 = for ever), serving meanwhile when `server` is listening. 1 = SIGTERM. */
static int wait_for(int signals, int server, unsigned long long deadline) {
    struct pollfd watched[2] = {{.fd = signals, .events = POLLIN}, {.fd = server, .events = POLLIN}};
    for (;;) {
        unsigned long long now = fg_now_ns();
        if (deadline && now >= deadline) return 0;
        struct timespec left = {0};
        if (deadline) left = (struct timespec){(time_t)((deadline - now) / 1000000000ULL), (long)((deadline - now) % 1000000000ULL)};
        if (ppoll(watched, 2, deadline ? &left : NULL, NULL) < 0) continue;
        if (watched[0].revents) return 1;
        if (!watched[1].revents) continue;
        int client = accept4(server, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0) answer(client), close(client);
    }
}

static int end(const struct settings *settings) {
    printf("standin stopping\n");
    fflush(stdout);
    struct timespec pause = {(time_t)settings->stop, (long)((settings->stop - (double)(time_t)settings->stop) * 1e9)};
    while (nanosleep(&pause, &pause)) continue;
    return 0;
}

int main(int argc, char **argv) {
    unsigned long long started = fg_now_ns();
    struct settings settings = {.cards = "0", .host = "0.0.0.0", .mib = 20000, .ready = 1.0, .stop = 0.3, .delay = 0.5};
    if (!parse(argc, argv, &settings)) {
        fputs("usage: standin --port P [--host H] [--gpu N,..] [--mib N] [--ready S] [--stop S] [--delay S]\n", stderr);
        return 2;
    }
    note_start(&settings);
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigaddset(&term, SIGINT);
    hold_cards(&settings);
    sigprocmask(SIG_BLOCK, &term, NULL);
    int server = bind_port(&settings), signals = signalfd(-1, &term, SFD_CLOEXEC);
    if (wait_for(signals, -1, started + (unsigned long long)(settings.ready * 1e9))) return end(&settings);
    listen(server, 128);
    printf("standin ready on port %d\n", settings.port);
    fflush(stdout);
    wait_for(signals, server, 0);
    return end(&settings);
}
