/* What a user signs: bytes that are read as a submission are written again as the same bytes, so that no two texts
 * mean one submission; a proof that leads to a root has a place in its tree. */
#include "base/check.h"
#include "net/signed.h"
#include "tests/fuzz/lib/input.h"

#include <stdlib.h>
#include <string.h>

static void check_bytes(const uint8_t *data, size_t size)
{
    struct signed_head head;
    uint8_t *bytes;
    size_t n;

    if (!signed_read(data, size, &head))
        return;
    CHECK(head.tasks > 0 && *head.cluster && *head.user && head.not_after_s >= 0);
    CHECK(head.spec + head.spec_size == data + size);
    CHECK(signed_write(&head, &bytes, &n) == 0);
    CHECK(n == size && memcmp(bytes, data, size) == 0);
    free(bytes);
}

static void check_proof(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    struct signed_proof proof = {
        .index = (uint32_t)take_number(&in, 4), .leaves = (uint32_t)take_number(&in, 4), .n = take_u8(&in)};
    struct signed_hash leaf = signed_leaf(data, size), root;

    for (unsigned i = 0; i < SIGNED_PROOF_MAX; i++)
        proof.hashes[i].bytes[0] = take_u8(&in);
    if (signed_root_of(&leaf, &proof, &root)) {
        CHECK(proof.index < proof.leaves && proof.n <= SIGNED_PROOF_MAX);
        CHECK(proof.leaves > 1 || memcmp(&root, &leaf, sizeof root) == 0);
        proof.n++;
        CHECK(!signed_root_of(&leaf, &proof, &root));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_bytes(data, size);
    check_proof(data, size);
    return 0;
}
