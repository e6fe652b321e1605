/* Job ids as text. */
#include "base/ids.h"

#include "base/err.h"
#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *job_id_format(char *buf, job_id_t j)
{
    snprintf(buf, JOB_ID_TEXT, "%" PRIu32 ".%" PRIu64, job_id_node(j).v, job_id_seq(j));
    return buf;
}

int job_id_parse(const char *text, job_id_t *j)
{
    char node_text[16];
    uint64_t node, seq;
    const char *dot = strchr(text, '.');

    if (!dot || (size_t)(dot - text) >= sizeof node_text)
        return HAWK_EINVALID;
    memcpy(node_text, text, (size_t)(dot - text));
    node_text[dot - text] = '\0';
    /* Node 0 is NODE_NONE: no job is called that. */
    if (u64_parse(node_text, 1, NODE_CENTRAL.v, &node) || u64_parse(dot + 1, 0, JOB_SEQ_MAX, &seq))
        return HAWK_EINVALID;
    *j = job_id_make((node_id_t){(uint32_t)node}, seq);
    return 0;
}
