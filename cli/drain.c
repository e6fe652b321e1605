/* hawk drain, undrain */
#include "cli/commands.h"
#include "cli/leaving_nodes.h"
#include "cli/print.h"
#include "cli/show.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct drain_options {
    struct common_options common;
    bool wait, until_restart;
};

const struct flag drain_flags[] = {
    FLAG(BOOL, struct drain_options, wait, "wait", 'w', NULL, "wait until the nodes have no work left"),
    FLAG(BOOL, struct drain_options, until_restart, "until-restart", 0, NULL,
         "only until the node's process ends: after an upgrade it takes work again"),
    {0},
};

static void print_drained(const struct session *s, const struct api_node *nodes, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        if (s->mode == OUTPUT_JSON)
            json_array_append_new(list, node_json(&nodes[i]));
        else if (s->mode == OUTPUT_TABLE)
            printf("%s %s: %s\n", CLEAN(nodes[i].role), CLEAN(nodes[i].name),
                   strcmp(nodes[i].state, member_state_text(MEMBER_GONE)) == 0
                       ? "not there now"
                       : CLEAN(show_node_state(&nodes[i])));
    if (s->mode == OUTPUT_JSON)
        document_print(json_pack("{s:O}", "nodes", list));
    json_decref(list);
}

/* Prints the nodes of `reply` as they are now, if central can still be asked. */
static void print_anew(struct session *s, const struct api_drain_reply *reply)
{
    struct api_list_nodes_reply now;
    if (client_list_nodes(s->client, &now)) {
        print_drained(s, reply->nodes, reply->nodes_n);
        return;
    }
    for (uint32_t i = 0; i < reply->nodes_n; i++)
        for (uint32_t k = 0; k < now.nodes_n; k++)
            if (now.nodes[k].node == reply->nodes[i].node) {
                struct api_node swap = reply->nodes[i];
                reply->nodes[i] = now.nodes[k];
                now.nodes[k] = swap;
            }
    print_drained(s, reply->nodes, reply->nodes_n);
    api_free(&api_list_nodes_reply_type, &now);
}

static int wait_drained(struct session *s, const struct api_drain_reply *reply)
{
    struct leaving_nodes r = {0};
    char names[300];
    leaving_nodes_add(&r, reply->nodes, reply->nodes_n);
    int err = leaving_nodes_wait(s, &r, LEAVING_BOTH, LEAVING_DRAINED, -1);
    int exit_code = HAWK_EXIT_OK;
    if (err == HAWK_ECANCELLED) {
        say_error(NULL, "no longer waiting; %s: `hawk undrain NODE` takes it back",
                  leaving_nodes_names(names, sizeof names, &r, LEAVING_BOTH, LEAVING_DRAINED));
        exit_code = exit_code_of_signal(SIGINT);
    } else if (err) {
        exit_code = session_failed(s);
    }
    leaving_nodes_free(&r);
    return exit_code;
}

static int drain_nodes(const struct drain_options *o, bool undrain, int argc, char **argv)
{
    const char *command = undrain ? "undrain" : "drain";
    struct api_drain_request r = {.nodes = (const char **)argv,
                                  .nodes_n = (uint32_t)argc,
                                  .undrain = undrain,
                                  .until_restart = o->until_restart};
    struct api_drain_reply reply;
    struct session s;
    if (argc == 0)
        return usage_error("%s: name the nodes: `hawk nodes` lists them", command);
    int exit_code = session_open(&s, command, &o->common);
    /* The wait may outlast the dist that answered: it may be one of the nodes that leave. */
    int err = exit_code ? 0 : client_use_central(s.client);
    if (!exit_code && !err)
        err = client_drain(s.client, &r, &reply);
    if (err) {
        session_failed(&s);
        exit_code = err == HAWK_EINVALID ? HAWK_EXIT_USAGE : HAWK_EXIT_UNREACHABLE;
    } else if (!exit_code) {
        if (o->wait)
            exit_code = wait_drained(&s, &reply);
        print_anew(&s, &reply);
        api_free(&api_drain_reply_type, &reply);
    }
    session_close(&s);
    return exit_code;
}

int drain_main(int argc, char **argv)
{
    struct drain_options o = {0};
    int first = flags_parse(argv[0], drain_flags, common_flags, false, argc, argv, &o);
    return first < 0 ? -first : drain_nodes(&o, false, argc - first, argv + first);
}

int undrain_main(int argc, char **argv)
{
    struct drain_options o = {0};
    int first = flags_parse(argv[0], NULL, common_flags, false, argc, argv, &o);
    return first < 0 ? -first : drain_nodes(&o, true, argc - first, argv + first);
}
